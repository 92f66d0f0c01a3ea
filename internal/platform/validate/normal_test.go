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

func TestTyped(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{
		"123456", " 123 456\n", "123-456", "123\u00a0456", "123\u202f456", "123\u2011456", "123\u2013456",
		"123\u2212456", "\ufeff123\u200b456", "12 34 56\r\n", "1\t23456", "１２３４５６", "123.456", "123\u00ad456",
	} {
		if got := Typed(typed); got != "123456" {
			t.Errorf("%q is %q", typed, got)
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
