package shortcode

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// golden is the part of the golden vectors that is about codes. The file is shared with package
// urlnorm.
type golden struct {
	Alphabet   string `json:"alphabet"`
	CodeLength int    `json:"code_length"`
	Vectors    []struct {
		Canonical   string `json:"canonical"`
		WorkspaceID string `json:"workspace_id"`
		SHA256Salt0 string `json:"sha256_salt0"`
		CodeSalt0   string `json:"code_salt0"`
		CodeSalt1   string `json:"code_salt1"`
	} `json:"vectors"`
	Base58Raw []struct {
		Hex16 string `json:"hex16"`
		Code  string `json:"code"`
	} `json:"base58_raw"`
	SaltSequence struct {
		Canonical   string   `json:"canonical"`
		WorkspaceID string   `json:"workspace_id"`
		Codes       []string `json:"codes"`
	} `json:"salt_sequence"`
}

func readGolden(t *testing.T) golden {
	t.Helper()
	text := must.Value(os.ReadFile("../../platform/urlnorm/testdata/lf1.json"))(t)
	var g golden
	must.NoError(t, json.Unmarshal(text, &g))
	if len(g.Vectors) == 0 || len(g.Base58Raw) == 0 || len(g.SaltSequence.Codes) == 0 {
		t.Fatal("the golden file lacks vectors")
	}
	return g
}

func TestConstants_MatchGoldenVectors(t *testing.T) {
	t.Parallel()
	g := readGolden(t)
	if g.Alphabet != alphabet || g.CodeLength != Length || len(g.SaltSequence.Codes) != Salts {
		t.Errorf("alphabet %q, length %d and %d salts differ from the golden file", alphabet, Length, Salts)
	}
}

func TestDeterministic_MatchesGoldenVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readGolden(t).Vectors {
		sum := digest(v.Canonical, v.WorkspaceID, 0)
		if got := hex.EncodeToString(sum[:]); got != v.SHA256Salt0 {
			t.Errorf("digest(%q, %q, 0) = %s, want %s", v.Canonical, v.WorkspaceID, got, v.SHA256Salt0)
		}
		for salt, want := range []string{v.CodeSalt0, v.CodeSalt1} {
			if got := Deterministic(v.Canonical, v.WorkspaceID, salt); got != want {
				t.Errorf("Deterministic(%q, %q, %d) = %s, want %s", v.Canonical, v.WorkspaceID, salt, got, want)
			}
		}
	}
}

func TestCandidates_MatchGoldenVectors(t *testing.T) {
	t.Parallel()
	sequence := readGolden(t).SaltSequence
	var codes []string
	for salt, code := range Candidates(sequence.Canonical, sequence.WorkspaceID) {
		if salt != len(codes) {
			t.Errorf("salt %d came at place %d", salt, len(codes))
		}
		codes = append(codes, code)
	}
	if diff := cmp.Diff(sequence.Codes, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func TestCandidates_Stops(t *testing.T) {
	t.Parallel()
	seen := 0
	for range Candidates("https://example.com/", "1") {
		seen++
		break
	}
	if seen != 1 {
		t.Errorf("saw %d candidates after a break, want 1", seen)
	}
}

func TestBase58_MatchesGoldenVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readGolden(t).Base58Raw {
		octets := must.Value(hex.DecodeString(v.Hex16))(t)
		got := base58(binary.BigEndian.Uint64(octets[:8]), binary.BigEndian.Uint64(octets[8:]))
		if got != v.Code {
			t.Errorf("base58(%s) = %s, want %s", v.Hex16, got, v.Code)
		}
	}
}

// TestBase58_MatchesReference compares the 128-bit arithmetic with that of math/big.
func TestBase58_MatchesReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		high, low := rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")
		if got, want := base58(high, low), referenceBase58(high, low); got != want {
			t.Fatalf("base58(%#x, %#x) = %s, want %s", high, low, got, want)
		}
	})
}

func referenceBase58(high, low uint64) string {
	n := new(big.Int).SetUint64(high)
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(low))
	digits := ""
	for digit := new(big.Int); n.Sign() > 0; {
		n.DivMod(n, big.NewInt(int64(len(alphabet))), digit)
		digits = alphabet[digit.Int64():][:1] + digits
	}
	padded := strings.Repeat("1", max(0, Length-len(digits))) + digits
	return padded[:Length]
}

func TestDeterministic_SeparatesWorkspaces(t *testing.T) {
	t.Parallel()
	long := "https://example.com/" + strings.Repeat("a", 4096) // longer than the stack buffer
	seen := map[string]bool{}
	for _, canonical := range []string{"https://example.com/", "https://example.com/a", long} {
		for _, workspaceID := range []string{"1", "11", "1|1"} {
			for _, code := range Candidates(canonical, workspaceID) {
				seen[code] = true
			}
		}
	}
	// By the order of hashing, salt 1 of workspace "1" is salt 0 of workspace "1|1". No workspace
	// id holds a bar.
	if got, want := len(seen), 3*3*Salts-3; got != want {
		t.Errorf("%d codes, want %d", got, want)
	}
}

func TestDeterministic_BoundsAllocations(t *testing.T) {
	if got := testing.AllocsPerRun(100, func() { Deterministic("https://example.com/page", "ws_1", 3) }); got > 1 {
		t.Errorf("%v allocations, want the code alone", got)
	}
}

func TestValidateCustom_EnforcesRules(t *testing.T) {
	t.Parallel()
	for code, isValid := range map[string]bool{
		strings.Repeat("a", 64): true, "aZ09_-": true, "-_-": true, "login": true, "a": true,
		strings.Repeat("a", 65): false, "": false, "a b": false, "abc\n": false, "abc\x00": false, "a/b": false,
		"...": false, "a%41": false, "café": false, "ａｂｃ": false, "ab\xff": false, "[@`{": false,
	} {
		err := ValidateCustom(code)
		invalid, ok := errors.AsType[*InvalidError](err)
		if isValid != (err == nil) || isValid == ok {
			t.Errorf("ValidateCustom(%q): %v", code, err)
		}
		if ok && (!strings.HasSuffix(invalid.Reason, ".") || invalid.Error() != invalid.Reason) {
			t.Errorf("reason %q is not a sentence for users", invalid.Reason)
		}
	}
}

func TestReserved_Words(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{
		"graphql": true, "GraphQL": true, ".well-known": true, "favicon.ico": true, "undefined": true,
		"graphqls": false, "promo": false, "Gbg5fgTP5s": false, "": false,
	} {
		if got := Reserved(word); got != want {
			t.Errorf("Reserved(%q) = %t, want %t", word, got, want)
		}
	}
}

var secret = []byte("a secret of thirty-two bytes....")

// TestPermutation_IsInvertible proves that it is a permutation of the whole range, not only of the
// values tried.
func TestPermutation_IsInvertible(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<(2*halfBits)-1).Draw(t, "n")
		if m := p.permute(n); m >= 1<<(2*halfBits) || p.invert(m) != n {
			t.Fatalf("%d becomes %d, whose inverse is %d", n, m, p.invert(m))
		}
		counter := n % Counters
		if got, ok := p.Counter(p.Code(counter)); !ok || got != counter {
			t.Fatalf("the code of %d is that of %d, %t", counter, got, ok)
		}
	})
}

func TestPermutation_CounterRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	for _, code := range []string{"", "abc", "abcdefgh", "abc-efg", "abcdef\u00e9", "\xffbcdefg"} {
		if n, ok := p.Counter(code); ok {
			t.Errorf("%q is the code of %d", code, n)
		}
	}
}

// TestCounter_NeighboursAreUnrelated counts the digits of consecutive counters' codes, and of their
// differences: each must be as frequent as chance has it. The secret is fixed, so the test always
// sees the same codes.
func TestCounter_NeighboursAreUnrelated(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	const codes = 62 * 1000
	var digits, steps [CounterLength][62]int
	last := p.Code(0)
	for counter := uint64(1); counter <= codes; counter++ {
		code := p.Code(counter)
		for i := range code {
			digit, before := strings.IndexByte(base62, code[i]), strings.IndexByte(base62, last[i])
			digits[i][digit]++
			steps[i][(digit-before+62)%62]++
		}
		last = code
	}
	for i := range CounterLength {
		for name, counts := range map[string][62]int{"digits": digits[i], "steps": steps[i]} {
			// 61 degrees of freedom: mean 61, deviation 11. Five deviations are one in millions.
			if got := chiSquare(counts[:], codes/62); got > 61+5*math.Sqrt(2*61) {
				t.Errorf("%s at place %d: chi-square %.1f", name, i, got)
			}
		}
	}
}

func chiSquare(counts []int, expected float64) float64 {
	var sum float64
	for _, n := range counts {
		sum += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	return sum
}

func TestCounter_DigitsAreUniform(t *testing.T) {
	t.Parallel()
	counts := make([]int, 62)
	const codes = 62 * 500
	for range codes {
		code := Random()
		if len(code) != CounterLength {
			t.Fatalf("%q", code)
		}
		for i := range code {
			counts[strings.IndexByte(base62, code[i])]++
		}
	}
	// Ten deviations: chance does not reach that, a digit that is never made does.
	if got := chiSquare(counts, codes*CounterLength/62); got > 61+10*math.Sqrt(2*61) {
		t.Errorf("chi-square %.1f", got)
	}
}
