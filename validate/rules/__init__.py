"""One rule a file; its docstring is its manual page.

The catalog is written out: a rule that is not in ``_RULES`` does not run, and a test fails for a rule file that is
missing here. Other distributions add rules with entry points of the group ``wdsflow.rules``.
"""

from importlib.metadata import entry_points

from .fields.f101_missing_everywhere import MissingEverywhere
from .fields.f102_missing_in_part import MissingInPart
from .fields.f103_other_name import OtherName
from .fields.f104_wrong_extension import WrongExtension
from .fields.f105_mixed_extensions import MixedExtensions
from .fields.f106_fields_differ import FieldsDiffer
from .fields.f107_bad_json import BadJson
from .fields.f108_no_json_caption import NoJsonCaption
from .fields.f109_caption_not_utf8 import CaptionNotUtf8
from .fields.f110_unlike_fields import UnlikeFields
from .fields.f111_unsafe_field import UnsafeField
from .fields.f112_empty_caption import EmptyCaption
from .fields.f113_odd_characters import OddCharacters
from .fields.f114_html_caption import HtmlCaption
from .fields.f115_none_caption import NoneCaption
from .fields.f116_filename_caption import FilenameCaption
from .fields.f117_mojibake import Mojibake
from .fields.f118_long_caption import LongCaption
from .fields.f119_huge_field import HugeField
from .fields.f120_gzipped_field import GzippedField
from .fields.f121_bad_field import BadField
from .fields.f122_needs_library import NeedsLibrary
from .fields.f123_two_images import TwoImages
from .fields.f124_frequent_caption import FrequentCaption
from .fields.f125_json_as_text import JsonAsText
from .fields.f126_types_differ import TypesDiffer
from .images.i201_undecodable import Undecodable
from .images.i202_cut_image import CutImage
from .images.i203_bomb import Bomb
from .images.i204_tiny import Tiny
from .images.i205_extreme_aspect import ExtremeAspect
from .images.i206_cmyk import Cmyk
from .images.i207_animated import Animated
from .images.i208_uniform import Uniform
from .images.i209_repeated import Repeated
from .images.i210_html import HtmlImage
from .images.i211_very_large import VeryLarge
from .images.i212_over_limit import OverLimit
from .images.i213_high_depth import HighDepth
from .images.i214_alpha import Alpha
from .images.i215_rotated import Rotated
from .images.i216_empty_image import EmptyImage
from .images.i217_not_an_image import NotAnImage
from .images.i218_damaged import Damaged
from .images.i219_slow_images import SlowImages
from .kit.base import Rule
from .tar.w001_truncated import Truncated
from .tar.w002_bad_header import BadHeader
from .tar.w003_second_archive import SecondArchive
from .tar.w004_compressed import Compressed
from .tar.w005_not_a_tar import NotATar
from .tar.w006_interleaved import Interleaved
from .tar.w007_duplicate_member import DuplicateMember
from .tar.w008_shared_keys import SharedKeys
from .tar.w009_split_sample import SplitSample
from .tar.w010_dotted_key import DottedKey
from .tar.w011_no_field import NoField
from .tar.w012_appledouble import AppleDouble
from .tar.w013_upper_case import UpperCase
from .tar.w014_unsafe_path import UnsafePath
from .tar.w015_huge_member import HugeMember
from .tar.w016_name_not_utf8 import NameNotUtf8
from .tar.w017_empty_shard import EmptyShard
from .tar.w018_no_end_blocks import NoEndBlocks
from .tar.w019_trailing_bytes import TrailingBytes
from .tar.w020_unreadable import Unreadable
from .tar.w021_mispaired import Mispaired
from .tar.w022_macosx import MacosxFolder
from .tar.w023_hidden_files import HiddenFiles
from .tar.w024_links import Links
from .tar.w025_sparse import Sparse
from .tar.w026_special import SpecialFiles
from .tar.w027_pax_overhead import PaxOverhead
from .tar.w028_control_in_name import ControlInName
from .tar.w029_split_folders import SplitFolders
from .tar.w030_mixed_prefix import MixedPrefix
from .tar.w031_long_run import LongRun
from .tar.w032_meta_members import MetaMembers
from .tar.w033_not_ascii_name import NotAsciiName
from .training.p301_nothing_passes import NothingPasses
from .training.p302_starved_worker import StarvedWorker
from .training.p303_too_few_shards import TooFewShards
from .training.p304_imbalance import Imbalance
from .training.p305_sidecars import WrongSidecar
from .training.p306_gaps import Gaps
from .training.p307_half_download import HalfDownload
from .training.p308_resampled_loss import ResampledLoss
from .training.p310_memory import ShuffleMemory
from .training.p311_versions import Versions
from .training.p312_pipe import LossyPipe
from .training.p313_accumulation import NoStep
from .training.p314_warmup import LongWarmup
from .training.p315_inflation import LongEpoch
from .training.p316_shared_memory import SharedMemory
from .training.p317_empty_validation import EmptyValidation
from .training.p318_dataset_type import UnknownDatasetType
from .training.p319_train_data import UnreadableUrls
from .training.p320_upsampling import Upsampling
from .training.p321_num_samples import WrongNumSamples
from .training.p322_no_sample_count import NoSampleCount
from .training.p323_command_fails import CommandFails
from .training.p324_never_drawn import NeverDrawn
from .training.p325_first_batch import SlowStart

GROUP = "wdsflow.rules"

_RULES: tuple[type[Rule], ...] = (
    # tar and names
    Truncated,
    BadHeader,
    SecondArchive,
    Compressed,
    NotATar,
    Interleaved,
    DuplicateMember,
    SharedKeys,
    SplitSample,
    DottedKey,
    NoField,
    AppleDouble,
    UpperCase,
    UnsafePath,
    HugeMember,
    NameNotUtf8,
    EmptyShard,
    NoEndBlocks,
    TrailingBytes,
    Unreadable,
    Mispaired,
    MacosxFolder,
    HiddenFiles,
    Links,
    Sparse,
    SpecialFiles,
    PaxOverhead,
    ControlInName,
    SplitFolders,
    MixedPrefix,
    LongRun,
    MetaMembers,
    NotAsciiName,
    # fields and captions
    MissingEverywhere,
    MissingInPart,
    OtherName,
    WrongExtension,
    MixedExtensions,
    FieldsDiffer,
    BadJson,
    NoJsonCaption,
    CaptionNotUtf8,
    UnlikeFields,
    UnsafeField,
    EmptyCaption,
    OddCharacters,
    HtmlCaption,
    NoneCaption,
    FilenameCaption,
    Mojibake,
    LongCaption,
    HugeField,
    GzippedField,
    BadField,
    NeedsLibrary,
    TwoImages,
    FrequentCaption,
    JsonAsText,
    TypesDiffer,
    # images
    Undecodable,
    CutImage,
    Bomb,
    Tiny,
    ExtremeAspect,
    Cmyk,
    Animated,
    Uniform,
    Repeated,
    HtmlImage,
    VeryLarge,
    OverLimit,
    HighDepth,
    Alpha,
    Rotated,
    EmptyImage,
    NotAnImage,
    Damaged,
    SlowImages,
    # configuration, forecast, sidecars, environment
    NothingPasses,
    StarvedWorker,
    TooFewShards,
    Imbalance,
    WrongSidecar,
    Gaps,
    HalfDownload,
    ResampledLoss,
    ShuffleMemory,
    Versions,
    LossyPipe,
    NoStep,
    LongWarmup,
    LongEpoch,
    SharedMemory,
    EmptyValidation,
    UnknownDatasetType,
    UnreadableUrls,
    Upsampling,
    WrongNumSamples,
    NoSampleCount,
    CommandFails,
    NeverDrawn,
    SlowStart,
)

RULES: dict[str, type[Rule]] = {rule.code: rule for rule in _RULES}


class BadRule(TypeError):
    """An entry point that is no rule; the message names it and says what is wrong."""


def catalog() -> dict[str, type[Rule]]:
    """Return all rules by code: those of wdsflow, then those of other distributions.

    Raises:
        BadRule: if an entry point of the group ``wdsflow.rules`` is not a subclass of ``Rule`` with a code of its own.
    """
    rules = dict(RULES)
    for point in entry_points(group=GROUP):
        rule = point.load()
        if not (isinstance(rule, type) and issubclass(rule, Rule) and isinstance(getattr(rule, "code", None), str)):
            raise BadRule(
                f"entry point {point.name} = {point.value}: not a subclass of wdsflow.validate.rules.Rule with a code"
            )
        if rules.setdefault(rule.code, rule) is not rule:
            raise BadRule(f"entry point {point.name} = {point.value}: the code {rule.code} is taken")
    return rules


__all__ = ["GROUP", "RULES", "BadRule", "Rule", "catalog"]
