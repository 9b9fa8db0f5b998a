"""`wds check --fix`: write a damaged shard again, with all complete samples.

A repaired shard holds complete samples only. A sample that lost a field, or has one that cannot be decoded, goes to a
second archive, `NAME.quarantine.tar`, together with files that belong to no sample. Everything that was done is listed.
The payloads are kept in a temporary file while the plan is made, so that takes as much disk as the largest shard.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile, gettempdir
from typing import IO

from webdataset import stores, tar
from webdataset.codecs import Decoder
from webdataset.errors import EncodingError, SpecError, StoreError, Where
from webdataset.index import has_index
from webdataset.redact import hides_secrets
from webdataset.writers import TarWriter

from ._check_decoding import decode_faults, field_decoder
from ._check_shard import REGULAR, check_shard
from ._findings import Finding, Kind, Severity
from ._output_target import PerShard, existing, make_folder, parse_target, refuse_existing, without_suffix
from ._repair_plan import Action, Deed, Draft, Plan, Planner, Stored
from ._shard_report import CheckOptions
from ._verb_options import Advance, advancing


@hides_secrets
@dataclass(frozen=True, slots=True)
class Repair:
    """The result of repairing one shard.

    Attributes:
        shard: the damaged shard.
        output: the repaired shard; None if nothing could be saved.
        quarantine: the archive of what was set aside; None if there is none.
        saved: how many samples the repaired shard has.
        aside: how many samples were set aside.
        actions: everything that was done.
        remaining: what is still wrong with the repaired shard.
    """

    shard: str
    output: str | None
    quarantine: str | None
    saved: int
    aside: int
    actions: tuple[Action, ...]
    remaining: tuple[Finding, ...] = ()


def repair(
    shards: Sequence[str],
    output: str,
    options: CheckOptions | None = None,
    *,
    force: bool = False,
    advance: Advance | None = None,
) -> list[Repair]:
    """Write damaged shards again.

    Args:
        shards: the shards to repair.
        output: a folder, or a pattern with `{name}` or `{stem}`.
        options: what makes a good sample; as for `check`.
        force: replace outputs that exist.
        advance: called with 1 after each shard.
    """
    target = parse_target(output)
    if not isinstance(target, PerShard):
        raise SpecError(f"repaired shards cannot be written to {output!r}", hint="give a folder, such as 'repaired/'")
    names = target.names(shards)
    for shard, name in zip(shards, names, strict=True):
        if shard == name:
            raise SpecError(
                "the repaired shard would replace the damaged one", Where(shard=shard), hint="give a folder"
            )
    written = [each for name in names for each in (name, quarantine_name(name))]
    refuse_existing(existing(written), force=force)
    pairs = advancing(zip(shards, names, strict=True), advance)
    return [repair_shard(shard, name, options or CheckOptions()) for shard, name in pairs]


def quarantine_name(output: str) -> str:
    """The address of the archive for samples that are set aside.

    >>> quarantine_name("out/a.tar.gz"), quarantine_name("out/a")
    ('out/a.quarantine.tar', 'out/a.quarantine.tar')
    """
    return f"{without_suffix(output)}.quarantine.tar"


def repair_shard(url: str, output: str, options: CheckOptions) -> Repair:
    """Write one shard again, under another name."""
    with stores.system_errors(gettempdir()), TemporaryFile() as payloads:
        try:
            plan = _read(url, options, payloads)
        except StoreError as error:  # other shards can be repaired all the same
            lost = Action(Deed.LOST, f"the shard cannot be read: {error.what}", url)
            return Repair(url, None, None, 0, 0, (lost,))
        make_folder(output)
        indexed = has_index(url) or has_index(output)
        saved, aside = _write_samples(plan, payloads, output, options, indexed=indexed)
        quarantine = _write_quarantine(plan, payloads, quarantine_name(output), aside)
    report = check_shard(output, options) if saved else None
    remaining = [] if report is None else [f for f in report.findings.listed if f.severity is not Severity.NOTE]
    written = output if saved else None
    return Repair(url, written, quarantine, saved, len(aside), tuple(plan.actions), tuple(remaining))


def _read(url: str, options: CheckOptions, payloads: IO[bytes]) -> Plan:
    planner = Planner(options)
    with stores.open_read(url) as stream:
        for found in tar.survey(stream):
            if isinstance(found, tar.Damage):
                planner.add_damage(found, payloads.tell())
                payloads.write(found.data or b"")
            elif found.kind in REGULAR:
                planner.add_file(found, payloads.tell())
                payloads.write(found.data)
            else:
                planner.add_special(found)
    return planner.finish()


def _write_samples(
    plan: Plan, payloads: IO[bytes], output: str, options: CheckOptions, *, indexed: bool
) -> tuple[int, list[tuple[Draft, str]]]:
    """Write the good samples, if there are any. Returns their number, and the other samples with the reasons."""
    decoder = field_decoder() if options.decode else None
    aside: list[tuple[Draft, str]] = []
    sink = TarWriter(output, encoder=False, keep_meta=True, index=indexed)
    try:
        for draft in plan.samples:
            fields = {name: _payload(payloads, member) for name, member in draft.fields.items()}
            reason = draft.reason or _undecodable(fields, decoder) or _written(sink, draft.key, fields)
            if reason is not None:
                aside.append((draft, reason))
                plan.note(Deed.SET_ASIDE, reason, draft.key, draft.offset)
    except BaseException:
        sink.abort()
        raise
    if sink.count:
        sink.close()
    else:
        sink.abort()
    return sink.count, aside


def _write_quarantine(plan: Plan, payloads: IO[bytes], output: str, aside: list[tuple[Draft, str]]) -> str | None:
    """Write everything that was set aside, and why; None if there is nothing."""
    if not aside and not plan.aside:
        return None
    reasons = {draft.key: reason for draft, reason in aside}
    members = [member for draft, _ in aside for member in draft.fields.values()]
    with stores.open_write(output) as stream:
        stream.write(tar.encode_member("__meta__/reasons.json", json.dumps(reasons, indent=2).encode()))
        for member in (*members, *plan.aside):
            stream.write(tar.encode_member(member.name, _payload(payloads, member)))
        stream.write(tar.END_OF_ARCHIVE)
    return output


def _payload(payloads: IO[bytes], member: Stored) -> bytes:
    payloads.seek(member.position)
    return payloads.read(member.size)


def _undecodable(fields: dict[str, bytes], decoder: Decoder | None) -> str | None:
    faults = [] if decoder is None else decode_faults(fields, decoder)
    bad = [fault for fault in faults if fault.kind in {Kind.UNDECODABLE, Kind.UNSAFE}]
    return f"the field {bad[0].field} cannot be decoded: {bad[0].what}" if bad else None


def _written(sink: TarWriter, key: str, fields: dict[str, bytes]) -> str | None:
    """Write a sample; returns the reason if it cannot be written."""
    try:
        sink.write({"__key__": key, **fields})
    except EncodingError as error:
        return error.what
    return None
