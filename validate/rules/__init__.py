"""One rule a file; its docstring is its manual page.

The catalog is written out: a rule that is not in ``_RULES`` does not run, and a test fails for a rule file that is
missing here. Other distributions add rules with entry points of the group ``wdsflow.rules``.
"""

from importlib.metadata import entry_points

from .base import Rule
from .f101_missing_everywhere import MissingEverywhere
from .f102_missing_in_part import MissingInPart
from .f103_other_name import OtherName
from .f104_wrong_extension import WrongExtension
from .f105_mixed_extensions import MixedExtensions
from .f106_fields_differ import FieldsDiffer
from .f107_bad_json import BadJson
from .f108_no_json_caption import NoJsonCaption
from .f109_caption_not_utf8 import CaptionNotUtf8
from .f110_unlike_fields import UnlikeFields
from .f111_unsafe_field import UnsafeField
from .f112_empty_caption import EmptyCaption
from .f113_odd_characters import OddCharacters
from .f114_html_caption import HtmlCaption
from .f115_none_caption import NoneCaption
from .f116_filename_caption import FilenameCaption
from .f117_mojibake import Mojibake
from .f118_long_caption import LongCaption
from .f119_huge_field import HugeField
from .f120_gzipped_field import GzippedField
from .f121_bad_field import BadField
from .f122_needs_library import NeedsLibrary
from .f123_two_images import TwoImages
from .f124_frequent_caption import FrequentCaption
from .f125_json_as_text import JsonAsText
from .f126_types_differ import TypesDiffer
from .i201_undecodable import Undecodable
from .i202_cut_image import CutImage
from .i203_bomb import Bomb
from .i204_tiny import Tiny
from .i205_extreme_aspect import ExtremeAspect
from .i206_cmyk import Cmyk
from .i207_animated import Animated
from .i208_uniform import Uniform
from .i209_repeated import Repeated
from .i210_html import HtmlImage
from .i211_very_large import VeryLarge
from .i212_over_limit import OverLimit
from .i213_high_depth import HighDepth
from .i214_alpha import Alpha
from .i215_rotated import Rotated
from .i216_empty_image import EmptyImage
from .i217_not_an_image import NotAnImage
from .i218_damaged import Damaged
from .i219_slow_images import SlowImages
from .p301_nothing_passes import NothingPasses
from .p302_starved_worker import StarvedWorker
from .p303_too_few_shards import TooFewShards
from .p304_imbalance import Imbalance
from .p305_sidecars import WrongSidecar
from .p306_gaps import Gaps
from .p307_half_download import HalfDownload
from .p308_resampled_loss import ResampledLoss
from .p310_memory import ShuffleMemory
from .p311_versions import Versions
from .p312_pipe import LossyPipe
from .p313_accumulation import NoStep
from .p314_warmup import LongWarmup
from .p315_inflation import LongEpoch
from .p316_shared_memory import SharedMemory
from .p317_empty_validation import EmptyValidation
from .p318_dataset_type import UnknownDatasetType
from .p319_train_data import UnreadableUrls
from .p320_upsampling import Upsampling
from .p321_num_samples import WrongNumSamples
from .p322_no_sample_count import NoSampleCount
from .p323_command_fails import CommandFails
from .p324_never_drawn import NeverDrawn
from .p325_first_batch import SlowStart
from .w001_truncated import Truncated
from .w002_bad_header import BadHeader
from .w003_second_archive import SecondArchive
from .w004_compressed import Compressed
from .w005_not_a_tar import NotATar
from .w006_interleaved import Interleaved
from .w007_duplicate_member import DuplicateMember
from .w008_shared_keys import SharedKeys
from .w009_split_sample import SplitSample
from .w010_dotted_key import DottedKey
from .w011_no_field import NoField
from .w012_appledouble import AppleDouble
from .w013_upper_case import UpperCase
from .w014_unsafe_path import UnsafePath
from .w015_huge_member import HugeMember
from .w016_name_not_utf8 import NameNotUtf8
from .w017_empty_shard import EmptyShard
from .w018_no_end_blocks import NoEndBlocks
from .w019_trailing_bytes import TrailingBytes
from .w020_unreadable import Unreadable
from .w021_mispaired import Mispaired
from .w022_macosx import MacosxFolder
from .w023_hidden_files import HiddenFiles
from .w024_links import Links
from .w025_sparse import Sparse
from .w026_special import SpecialFiles
from .w027_pax_overhead import PaxOverhead
from .w028_control_in_name import ControlInName
from .w029_split_folders import SplitFolders
from .w030_mixed_prefix import MixedPrefix
from .w031_long_run import LongRun
from .w032_meta_members import MetaMembers
from .w033_not_ascii_name import NotAsciiName

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
