"""What the object of the user's loader shows before it is read, see ``LoaderFacts``."""

import sys
from collections.abc import Sequence

from ..user_code.iterables import is_map_style
from .loader_messages import LoaderFacts
from .loader_parts import has_drawn_shards, has_repeated_shards, loaders_in, stateful_part
from .source_lines import DEFINES, SEEDS, SETS_GLOBAL, line_in


def facts_of(loader: object, user_object: object, set_globals: Sequence[str]) -> LoaderFacts:
    """Return the facts about a loader.

    Args:
        loader: the object that is iterated.
        user_object: the function or class that the user named.
        set_globals: names of globals that changed when the loader was made.
    """
    loaders = [torch_loader for _, torch_loader in loaders_in(loader)]
    resampled = has_drawn_shards(loader)
    state_path, stateful = stateful_part(loader)
    # It is not imported for loaders that do not use it.
    data = sys.modules.get("torch.utils.data")
    is_dataset = data is not None and isinstance(loader, data.Dataset)
    workers = [int(torch_loader.num_workers) for torch_loader in loaders]
    contexts = [getattr(torch_loader, "multiprocessing_context", None) for torch_loader in loaders]
    iterated = [loader, *(torch_loader.dataset for torch_loader in loaders)]
    # Lines of the user's code that messages name.
    lines = {
        "sets": line_in(user_object, user_object, SETS_GLOBAL.format("|".join(set_globals))),
        "seeds": line_in(loader, user_object, SEEDS),
        "reads": line_in(loader, user_object, DEFINES.format("__iter__")),
        "saves": line_in(stateful, user_object, DEFINES.format("state_dict")),
        "loads": line_in(stateful, user_object, DEFINES.format("load_state_dict")),
    }
    return LoaderFacts(
        kind=type(loader).__name__,
        workers=max(workers, default=None),
        can_have_workers=bool(loaders) or is_dataset,
        has_start_method=any(context is not None for context in contexts),
        state_path=state_path,
        map_style=any(map(is_map_style, iterated)),
        repeats=resampled or has_repeated_shards(loader),
        resampled=resampled,
        lines=lines,
        set_globals=tuple(set_globals),
    )
