package validate

import "testing"

func TestFold(t *testing.T) {
	t.Parallel()
	for _, equal := range [][]string{
		{"ΟΔΟΣ", "οδος", "Οδοσ"}, {"Straße", "STRASSE", "STRAẞE", "strasse"}, {"İSTANBUL", "istanbul", "ıstanbul",
			"I\u0307stanbul"},
		{"Caf\u00e9", "CAFE\u0301"}, {"ＡＢＣ", "abc"}, {"ﬁnal", "FINAL"}, {"\u212bngstr\u00f6m", "a\u030angstro\u0308m"},
		{"ΑΙ\u0345", "αιι"}, {"", ""}, {"Plain / 100%", "plain / 100%"},
	} {
		for _, text := range equal {
			if got, want := Fold(text), Fold(equal[0]); got != want || got != Fold(got) {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

// TestLine_IsNormalized also where a character is removed between a letter and its mark.
func TestLine_IsNormalized(t *testing.T) {
	t.Parallel()
	for label, check := range map[string]func(string, string, int, int) (string, error){
		"Line": Line, "Lines": Lines, "Opaque": Opaque,
	} {
		if got, err := check(label, "cafe\u0301", 1, 4); got != "caf\u00e9" || err != nil {
			t.Errorf("%s: %q, %v", label, got, err)
		}
	}
	if got, err := Line("", "cafe\u200b\u0301", 1, 4); got != "caf\u00e9" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
