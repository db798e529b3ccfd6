"""Pickles and torch files, judged by their instructions alone: nothing in them is run."""

import pickle
import pickletools
from importlib.util import find_spec
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from wdsflow.scan.statuses import BAD, SUSPECT, UNSAFE

# Bytes of instructions that are followed: some seconds at most.
_LONGEST = 1 << 20
# The first of the pickles in a file of torch before 1.6.
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
# Magic number, version, machine, object.
_TORCH_PICKLES = 4
# The modules of the names that torch.load takes with ``weights_only``, its default since 2.6.
_TORCH_MODULES = frozenset(
    "torch torch._utils torch._tensor torch.nn.parameter torch.serialization torch.storage collections _codecs "
    "builtins __builtin__".split()
)
_TEXTS = frozenset(
    "SHORT_BINUNICODE BINUNICODE BINUNICODE8 UNICODE STRING SHORT_BINSTRING BINSTRING".split()
)
# Bytes of the instruction before a frame.
_FRAME = 9
_PUTS, _GETS = (
    frozenset(("PUT", "BINPUT", "LONG_BINPUT")),
    frozenset(("GET", "BINGET", "LONG_BINGET")),
)


class _Nowhere:
    def write(self, _: str) -> None:
        """Discard what ``pickletools.dis`` prints."""


def pickle_status(data: bytes) -> str:
    """Return the likely result of ``pickle.loads``, without running the pickle.

    BAD: it is cut, or no pickle. SUSPECT: its instructions do not fit together, or it needs a
    module that is not installed here. UNSAFE: nothing speaks against it.
    """
    if len(data) > _LONGEST:
        return UNSAFE
    try:
        modules = _modules_in(BytesIO(data))
    except Exception:  # noqa: BLE001 - pickletools raises many kinds for bytes that are no pickle
        return BAD
    try:
        pickletools.dis(data, out=_Nowhere())  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001
        return SUSPECT
    return UNSAFE if all(_is_installed(module) for module in modules) else SUSPECT


def torch_status(data: bytes) -> str:
    """Return what ``torch.load`` would make of bytes, with the values of ``pickle_status``."""
    zipped = data.startswith(b"PK")
    try:
        modules = _modules_in_zip(data) if zipped else _modules_in_old_file(data)
    except Exception:  # noqa: BLE001 - zipfile and pickletools raise many kinds
        return BAD
    return UNSAFE if modules <= _TORCH_MODULES and not (zipped and _is_damaged(data)) else SUSPECT


def _is_damaged(data: bytes) -> bool:
    """Return whether a checksum in a zip file does not match.

    Not all versions of torch compare checksums.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            return archive.testzip() is not None
    except Exception:  # noqa: BLE001
        return True


def _modules_in_zip(data: bytes) -> set[str]:
    """Return the modules needed by the object in a file of torch 1.6 or later.

    Raises errors of zipfile.
    """
    with ZipFile(BytesIO(data)) as archive:
        found = next(
            (member for member in archive.infolist() if member.filename.endswith("/data.pkl")), None
        )
    if found is None:
        raise BadZipFile("no data.pkl")
    # Not by zipfile: it compares checksums, which torch does not.
    name_and_extra = data[found.header_offset + 26 : found.header_offset + 30]
    start = found.header_offset + 30 + sum(memoryview(name_and_extra).cast("H"))
    return _modules_in(BytesIO(data[start : start + min(found.file_size, _LONGEST)]))


def _modules_in_old_file(data: bytes) -> set[str]:
    """Return the modules needed by the pickles in a file of torch before 1.6.

    Raises ValueError and others.
    """
    stream = BytesIO(data)
    if _TORCH_MAGIC not in [argument for _, argument, _ in pickletools.genops(stream)]:
        raise ValueError("not a file of torch")
    return set().union(*(_modules_in(stream) for _ in range(_TORCH_PICKLES - 1)))


def _modules_in(stream: BytesIO) -> set[str]:
    """Return the modules from which the next pickle imports names.

    Raises ValueError and others if there is no valid pickle.
    """
    end = len(stream.getbuffer())
    modules: set[str] = set()
    # The latest two, which STACK_GLOBAL takes.
    texts = ["", ""]
    memo: dict[object, str] = {}
    for opcode, argument, position in pickletools.genops(stream):
        name = opcode.name
        if name in _TEXTS:
            texts = [texts[1], str(argument)]
        elif name in _GETS:
            texts = [texts[1], memo.get(argument, "")]
        elif name in _PUTS:
            memo[argument] = texts[1]
        elif name == "MEMOIZE":
            memo[len(memo)] = texts[1]
        elif name in ("GLOBAL", "INST"):
            modules.add(str(argument).partition(" ")[0])
        elif name == "STACK_GLOBAL":
            modules.add(texts[0])
        elif name == "PROTO" and int(argument or 0) > pickle.HIGHEST_PROTOCOL:
            raise ValueError("unknown protocol")
        elif name == "FRAME" and int(position or 0) + _FRAME + int(argument or 0) > end:
            raise ValueError("a frame is cut")
    return modules


def _is_installed(module: str) -> bool:
    """Return whether the top-level package of a module can be imported, without importing it."""
    package = module.partition(".")[0]
    # Of the program that wrote it; of Python 2.
    if package in ("__main__", "copy_reg", "__builtin__"):
        return package != "__main__"
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False
