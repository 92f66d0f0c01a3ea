package validate

import "testing"

func TestIsJSONText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		``: true, `"a\n\\"`: true, "\"\u00e4\U0001f600\"": true, `"\ud83d\ude00"`: true,
		`"\uD83D\uDE00\uD83D\uDE00"`: true,
		`"\\ud83d"`:                  true, `"\\\\ud83d"`: true, `"\u00e9\ufffd"`: true, `"\`: true, `"\u12"`: true,
		"\"\xe4\"": false, "\"\xc0\xaf\"": false, "\"\xed\xa0\xbd\xed\xb8\x80\"": false, "\xff\xfe{\x00": false,
		`"\ud83d"`: false, `"\uDE00"`: false, `"\ud83d\ud83d"`: false, `"\ude00\ud83d"`: false,
		`"\ud83d \ude00"`: false,
		`"\\\ud83d"`:      false, `"\ud83d\n"`: false, `"\ud83d\`: false, `"\ud83d\ude00\ude00"`: false,
	} {
		if got := IsJSONText([]byte(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
