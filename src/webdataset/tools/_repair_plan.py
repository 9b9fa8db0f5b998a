"""What to do with each member of a damaged shard: keep it, rename it, move it to its sample, or set it aside."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from webdataset import tar
from webdataset.names import is_meta, split_name
from webdataset.samples import OWN_FIELDS

from ._check_shard import FOLDER, LINKS
from ._findings import Kind
from ._portable_names import name_faults, portable_name
from ._shard_report import CheckOptions, common_fields

_RENAMED = frozenset({Kind.UPPER_CASE, Kind.NOT_UTF8, Kind.CONTROL, Kind.ABSOLUTE, Kind.PARENT})
# Next to damage, a sample is incomplete if it lacks a field that at least this share of the samples have.
_USUAL = 0.5


class Deed(StrEnum):
    """What a repair did with a member."""

    LOST = "lost"
    SET_ASIDE = "set aside"
    DROPPED = "dropped"
    RENAMED = "renamed"
    MOVED = "put together"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a repair did.

    >>> print(Action(Deed.RENAMED, "to a.jpg", "a.JPG", 512))
    renamed a.JPG (byte 512): to a.jpg
    """

    deed: Deed
    why: str
    name: str
    offset: int | None = None

    def __str__(self) -> str:
        where = "" if self.offset is None else f" (byte {self.offset})"
        return f"{self.deed} {self.name}{where}: {self.why}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A member whose payload was saved: its new name, its offset in the shard, and where its payload is kept."""

    name: str
    offset: int
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A sample as it will be written, or set aside for a reason."""

    key: str
    offset: int
    fields: dict[str, Stored]
    reason: str | None = None


@dataclass(slots=True)
class Plan:
    """The samples to write, the members that are set aside, and what was done about each member."""

    samples: list[Draft] = field(default_factory=list)
    aside: list[Stored] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def note(self, deed: Deed, why: str, name: str, offset: int | None) -> None:
        """Record what was done."""
        self.actions.append(Action(deed, why, name, offset))


class Planner:
    """Takes the members of a shard in their order, then makes a plan."""

    def __init__(self, options: CheckOptions) -> None:
        self._options = options
        self._plan = Plan()
        self._files: dict[str, Stored] = {}
        self._links: list[tar.Surveyed] = []
        self._members: list[Stored] = []
        self._losses: list[tar.Damage] = []

    def add_damage(self, damage: tar.Damage, position: int) -> None:
        """Add damaged bytes; those in place of a payload are kept at `position` and set aside."""
        if damage.loses:
            self._losses.append(damage)
        if damage.data and damage.name:
            self._plan.aside.append(Stored(damage.name, damage.offset, position, len(damage.data)))
        self._plan.note(Deed.LOST if damage.loses else Deed.DROPPED, damage.what, damage.name or "bytes", damage.offset)

    def add_special(self, member: tar.Surveyed) -> None:
        """Add a member that is not a file."""
        if member.kind in LINKS:
            self._links.append(member)
        elif member.kind != FOLDER:
            self._plan.note(Deed.DROPPED, f"type {member.kind!r}", member.name, member.offset)

    def add_file(self, member: tar.Surveyed, position: int) -> None:
        """Add a file whose payload is kept at `position`."""
        stored = Stored(member.name, member.offset, position, len(member.data))
        self._files.setdefault(member.name, stored)
        self._members.append(stored)

    def finish(self) -> Plan:
        """The plan for all members."""
        self._follow_links()
        drafts = self._grouped()
        usual = self._usual_fields(drafts)
        beside = self._beside_losses(drafts)
        for draft in drafts:
            missing = sorted((usual if draft.key in beside else self._required()) - draft.fields.keys())
            lost = [name for name in self._lost_fields(draft.key) if name not in draft.fields]
            reason = f"missing fields: {' '.join(missing or lost)}" if missing or lost else None
            self._plan.samples.append(replace(draft, reason=reason))
        if self._options.in_order:
            self._plan.samples.sort(key=lambda draft: draft.key)
        return self._plan

    def _follow_links(self) -> None:
        """A link to another member becomes a copy of it; any other link is lost."""
        for link in self._links:
            target = link.link if link.kind == b"1" else posixpath.join(posixpath.dirname(link.name), link.link)
            found = self._files.get(target) or self._files.get(posixpath.normpath(target))
            if found is None:
                self._losses.append(tar.Damage(tar.DamageKind.SPARSE, "", link.offset, link.name))
                self._plan.note(Deed.LOST, f"it links to {link.link}, which is not here", link.name, link.offset)
            else:
                self._members.append(replace(found, name=link.name, offset=link.offset))
                self._plan.note(Deed.COPIED, f"it was a link to {link.link}", link.name, link.offset)
        self._members.sort(key=lambda member: member.offset)

    def _grouped(self) -> list[Draft]:
        """The members by key, in the order in which the keys come first."""
        drafts: dict[str, Draft] = {}
        owners: dict[str, str | None] = {}
        last = None
        for given, member in self._named():
            key, field_name = split_name(member.name)
            assert key is not None
            assert field_name is not None
            draft = drafts.setdefault(key, Draft(key, member.offset, {}))
            taken = owners.setdefault(key, given) != given
            if taken or field_name in draft.fields:
                why = f"there is another sample {key}" if taken else "the sample has this field already"
                self._plan.aside.append(member)
                self._plan.note(Deed.SET_ASIDE, why, member.name, member.offset)
                continue
            draft.fields[field_name] = member
            if last not in {None, key} and len(draft.fields) > 1:
                self._plan.note(Deed.MOVED, f"it belongs to sample {key}", member.name, member.offset)
            last = key
        return list(drafts.values())

    def _named(self) -> Iterator[tuple[str | None, Stored]]:
        """The members that belong to samples, under names that can be read everywhere, and their keys before."""
        for member in self._members:
            kinds = [kind for kind, _ in name_faults(member.name)]
            name = portable_name(member.name) if _RENAMED.intersection(kinds) else member.name
            key, field_name = split_name(name)
            if is_meta(name) or key is None or not field_name:
                self._plan.aside.append(replace(member, name=name or "nameless"))
                self._plan.note(Deed.SET_ASIDE, "it belongs to no sample", member.name, member.offset)
                continue
            if field_name.lower() in OWN_FIELDS:
                self._plan.note(Deed.DROPPED, "readers put their own value here", member.name, member.offset)
                continue
            if name != member.name:
                self._plan.note(Deed.RENAMED, f"to {name}", member.name, member.offset)
            yield split_name(member.name)[0], replace(member, name=name)

    def _required(self) -> frozenset[str]:
        return frozenset(self._options.fields or ())

    def _usual_fields(self, drafts: Iterable[Draft]) -> frozenset[str]:
        sets: dict[frozenset[str], tuple[int, None]] = {}
        for draft in drafts:
            names = frozenset(draft.fields)
            sets[names] = (sets.get(names, (0, None))[0] + 1, None)
        return common_fields(sets, _USUAL) | self._required()

    def _beside_losses(self, drafts: list[Draft]) -> set[str]:
        """The samples just before and just after lost bytes: the lost member may belong to them."""
        places = sorted((member.offset, draft.key) for draft in drafts for member in draft.fields.values())
        beside: set[str] = set()
        for loss in self._losses:
            after = bisect_left(places, (loss.offset, ""))
            beside.update(key for _, key in places[max(0, after - 1) : after + 1])
        return beside

    def _lost_fields(self, key: str) -> Iterator[str]:
        """The fields of a sample that are known to be lost."""
        for loss in self._losses:
            owner, field_name = split_name(loss.name) if loss.name else (None, None)
            if owner == key and field_name:
                yield field_name.lower()
