package validate

import "testing"

func TestCell_NeutralizesFormulas(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"equals":                       "=1+1",
		"plus":                         "+1",
		"minus":                        "-1",
		"at":                           "@SUM(A1)",
		"full-width equals":            "\uff1d1+1",
		"full-width plus":              "\uff0b1",
		"full-width minus":             "\uff0d1",
		"full-width at":                "\uff20SUM(A1)",
		"small equals":                 "\ufe661+1",
		"zero-width space":             "\u200b=1",
		"blank Braille pattern":        "\u2800=1",
		"space":                        " =1",
		"no-break space":               "\u00a0@a",
		"control character":            "\x00=1",
		"tab":                          "\ttext",
		"carriage return":              "\rtext",
		"line feed":                    "\ntext",
		"mixed":                        " \u200b\t\u2060\uff1d1",
		"formula start and no formula": "=",
	} {
		if got, want := Cell(in), "'"+in; got != want {
			t.Errorf("%s: %+q became %+q, want %+q", name, in, got, want)
		}
	}
}

func TestCell_RetainsText(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":                   "",
		"word":                    "newsletter",
		"number":                  "5.25",
		"formula character later": "a=b",
		"only invisible":          "\u200b\u2060",
		"not UTF-8":               "\xff=1",
		"apostrophe":              "'=1",
	} {
		if got := Cell(in); got != in {
			t.Errorf("%s: %+q became %+q", name, in, got)
		}
	}
}
