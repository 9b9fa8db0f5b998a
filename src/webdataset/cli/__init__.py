"""The command `wds`. In: arguments. Each verb parses them, calls its function in `tools`, and prints the result.

Only this package prints. `webdataset.tools` loads each function when it is used; other packages that a verb needs are
imported inside its function, so that `wds --help` is quick.

    _main             the group of verbs, loaded when they are used
    _output           results, progress bars, errors and exit codes of all verbs
    _options          options that several verbs have, and the text of a report
    _text_graphics    pictures, bars and tables as text
    _tarproc_commands `tarcats`, `tarsplit`, `tarsort`, `tarproc`, `tarmix`, `tsv2tar`, `lines2tar`, `tarshow`,
                      `tarfirst`, `tar2tsv`, `tar2json`
    _tarp_commands    `tarp`
One verb each:
    _create_command  _cat_command  _split_command  _select_command  _partition_command  _sort_command
    _shuffle_command  _join_command  _rename_command  _recode_command  _proc_command  _mix_command
    _check_command  _ls_command  _show_command  _get_command  _first_command  _grep_command  _stats_command
    _diff_command  _index_command  _query_command  _bench_command  _simulate_command  _doctor_command
    _convert_command
    _serve_command  _monitor_command  _view_command
Streams of arrays:
    _tensorcom_commands  `tensormon`, `tensorstat`, `tensorshow`, `serve-imagenet-shards`
"""

from ._main import main
from ._output import printing

__all__ = ["main", "printing"]
