package clicksql

import (
	"fmt"
	"testing"
)

// TestColumns_MatchDimensions of one value, of 256, of 257, and of more than two bytes can number.
func TestColumns_MatchDimensions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 255, 256, 257, 65536, 65537} {
		c := column{known: map[string]int{}}
		for i := range n + 3 {
			c.add(fmt.Sprint(i % n))
		}
		if want := (n + 3) * codeWidth(n); len(c.codes) != want {
			t.Errorf("%d values take %d bytes, want %d", n, len(c.codes), want)
		}
		read, err := readCodes(c.encode(), n+3)
		if err != nil {
			t.Fatalf("%d values: %v", n, err)
		}
		for i := range n + 3 {
			if got := read.values[read.clickCode(i)]; got != fmt.Sprint(i%n) {
				t.Fatalf("%d values, click %d: %q", n, i, got)
			}
		}
		if read.valueCode("0") != 0 || read.valueCode("none") != -1 {
			t.Errorf("%d values: codes %d and %d", n, read.valueCode("0"), read.valueCode("none"))
		}
	}
}

// FuzzColumns: nothing that a column may hold makes reading panic.
func FuzzColumns(f *testing.F) {
	c := column{known: map[string]int{}}
	c.add("a")
	c.add("")
	f.Add(c.encode(), 2)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 1)
	f.Fuzz(func(_ *testing.T, b []byte, clicks int) {
		read, err := readCodes(b, clicks)
		if err != nil {
			return
		}
		for i := range min(clicks, 1000) {
			_ = read.clickCode(i)
		}
	})
}
