package validate

import "testing"

func TestCell_NeutralizesFormulas(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"equals":                       "=1+1",
		"plus":                         "+1",
		"minus":                        "-1",
		"negative number":              "-5",
		"at":                           "@SUM(A1)",
		"full-width equals":            "\uff1d1+1",
		"full-width plus":              "\uff0b1",
		"full-width minus":             "\uff0d1",
		"full-width at":                "\uff20SUM(A1)",
		"small equals":                 "\ufe661+1",
		"zero-width space":             "\u200b=1",
		"byte order mark":              "\ufeff=1",
		"soft hyphens":                 "\u00ad\u00ad=1",
		"direction override":           "\u202e=1",
		"Hangul filler":                "\u3164+1",
		"blank Braille pattern":        "\u2800=1",
		"tag character":                "\U000e0041=1",
		"variation selector":           "\ufe0f=1",
		"space":                        " =1",
		"no-break space":               "\u00a0@a",
		"control character":            "\x00=1",
		"tab":                          "\ttext",
		"carriage return":              "\rtext",
		"line feed":                    "\ntext",
		"tab and equals":               "\t=1",
		"mixed":                        " \u200b\t\u2060\uff1d1",
		"formula start and no formula": "=",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := Cell(in), "'"+in; got != want {
				t.Errorf("%+q became %+q, want %+q", in, got, want)
			}
		})
	}
}

func TestCell_RetainsText(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":                   "",
		"word":                    "newsletter",
		"number":                  "5.25",
		"instant":                 "2026-11-20T12:00:00Z",
		"formula character later": "a=b",
		"leading spaces":          "  a",
		"only invisible":          "\u200b\u2060",
		"only spaces":             "  ",
		"emoji":                   "❤\ufe0f",
		"not UTF-8":               "\xff=1",
		"apostrophe":              "'=1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Cell(in); got != in {
				t.Errorf("%+q became %+q", in, got)
			}
		})
	}
}
