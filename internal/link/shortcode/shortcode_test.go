package shortcode

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
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

// TestDeterministic_MatchesExample holds the worked example of the algorithm.
func TestDeterministic_MatchesExample(t *testing.T) {
	t.Parallel()
	const canonical = "http://example.com/api/users?id=123&name=john"
	for workspaceID, want := range map[string]string{"ws_abc123": "Gbg5fgTP5s", "42": "K5YWpCtbjZ"} {
		if got := Deterministic(canonical, workspaceID, 0); got != want {
			t.Errorf("Deterministic(%q, %q, 0) = %s, want %s", canonical, workspaceID, got, want)
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

func BenchmarkDeterministic(b *testing.B) {
	for name, canonical := range map[string]string{
		"short": "https://example.com/page?ref=newsletter&utm_source=spring",
		"2KiB":  "https://example.com/" + strings.Repeat("a", 2048),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Deterministic(canonical, "ws_01h455vb4pex5vsknk084sn02q", 0)
			}
		})
	}
}

func BenchmarkBase58(b *testing.B) {
	for b.Loop() {
		base58(0x7e5073c80eaa53eb, 0x75e9b204c05d759b)
	}
}
