package id

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestID_EncodesLikeTypeID(t *testing.T) {
	t.Parallel()
	// The valid cases of the TypeID specification.
	for text, want := range map[string]string{
		"00000000-0000-0000-0000-000000000000": "00000000000000000000000000",
		"00000000-0000-0000-0000-000000000001": "00000000000000000000000001",
		"00000000-0000-0000-0000-00000000000a": "0000000000000000000000000a",
		"00000000-0000-0000-0000-000000000010": "0000000000000000000000000g",
		"00000000-0000-0000-0000-000000000020": "00000000000000000000000010",
		"ffffffff-ffff-ffff-ffff-ffffffffffff": "7zzzzzzzzzzzzzzzzzzzzzzzzz",
		"01890a5d-ac96-774b-bcce-b302099a8057": "01h455vb4pex5vsknk084sn02q",
	} {
		if got := encode(uuid.MustParse(text)); got != want {
			t.Errorf("encode(%s) = %s, want %s", text, got, want)
		}
	}
}

func TestNew_IsValidAndOrdered(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 1000 {
		ids = append(ids, New(Link))
	}
	if !slices.IsSorted(ids) {
		t.Error("ids are not in the order in which they were made")
	}
	for _, s := range ids {
		if !Valid(Link, s) || Valid(Workspace, s) {
			t.Fatalf("%s: valid as a link %t, as a workspace %t", s, Valid(Link, s), Valid(Workspace, s))
		}
	}
}

func TestParse_RefusesInvalid(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "lnk_", "lnk_01h455vb4pex5vsknk084sn02", "lnk_01h455vb4pex5vsknk084sn02qq",
		"lnk_81h455vb4pex5vsknk084sn02q",
		"lnk_01H455VB4PEX5VSKNK084SN02Q", "lnk_01h455vb4pex5vsknk084sn0lq", "LNK_01h455vb4pex5vsknk084sn02q",
		"lnk_01h455vb4pex5vsknk084sn0\x00q", "lnk_' OR 1=1 --aaaaaaaaaaaaaaa",
	} {
		if Valid(Link, s) {
			t.Errorf("%q is taken for an id", s)
		}
	}
}

func TestPair_SplitsIntoBothIDs(t *testing.T) {
	t.Parallel()
	first, second := New(Account), New(Workspace)
	pair := Pair(Member, first, second)
	if a, b, ok := SplitPair(Member, pair, Account, Workspace); !ok || a != first || b != second ||
		PrefixOf(pair) != Member {
		t.Errorf("%s: %s and %s, %t", pair, a, b, ok)
	}
	for name, s := range map[string]string{
		"empty": "", "prefix alone": "mem_", "one id": "mem_" + first[4:], "other prefix": "mex_" + pair[4:],
		"too long":      pair + "0",
		"invalid first": "mem_8" + pair[5:], "invalid second": pair[:30] + "8" + pair[31:],
		"upper case": "mem_A" + pair[5:],
	} {
		if _, _, ok := SplitPair(Member, s, Account, Workspace); ok {
			t.Errorf("%s: %q is taken for a pair", name, s)
		}
	}
}

func TestDaily_IsTheSameAllDay(t *testing.T) {
	t.Parallel()
	morning := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	evening := morning.Add(24*time.Hour - 1).In(time.FixedZone("", -5*60*60))
	first := daily(Operation, morning, []string{"a", "b"})
	if again := daily(Operation, evening, []string{"a", "b"}); again != first || !Valid(Operation, first) {
		t.Errorf("%s, then %s", first, again)
	}
	for name, other := range map[string]string{
		"another day": daily(Operation, morning.Add(24*time.Hour), []string{"a", "b"}),
		"fewer parts": daily(Operation, morning, []string{"ab"}),
		"other order": daily(Operation, morning, []string{"b", "a"}),
	} {
		if other == first {
			t.Errorf("%s: the same id", name)
		}
	}
	if from, to, ok := Span(Operation, first); !from.Equal(morning) || !to.Equal(morning.Add(24*time.Hour)) || !ok {
		t.Errorf("from %s to %s, %t", from, to, ok)
	}
	u := uuid.MustParse("0199a5d4-0000-7000-8000-000000000000")
	if from, to, ok := Span(Operation, string(Operation)+encode(u)); !from.Equal(to) || !ok {
		t.Errorf("of New: from %s to %s, %t", from, to, ok)
	}
	if _, _, ok := Span(Link, first); ok {
		t.Error("an id of another type has a span")
	}
}
