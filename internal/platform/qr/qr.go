// Package qr renders texts as QR codes: it encodes (qr.go), checks styles (style.go, logo.go),
// renders SVG and PNG images (render.go), divides a node's work between owners (renderer.go), and
// decodes the images that it renders (decode.go). It uses no database or network, and the same text
// and style give the same bytes. Packages link and workspace, the server and `linkforge qr` call
// it.
package qr

import (
	"fmt"

	"rsc.io/qr/coding"
)

// Level is how much damage a code tolerates. Its text is the name in the GraphQL schema.
type Level string

// The levels.
const (
	Low      Level = "LOW"
	Medium   Level = "MEDIUM"
	Quartile Level = "QUARTILE"
	High     Level = "HIGH"
)

var levels = map[Level]coding.Level{Low: coding.L, Medium: coding.M, Quartile: coding.Q, High: coding.H}

// code is an encoded text: a square of modules, which are dark or light.
type code struct {
	modules int // per side
	dark    []bool
}

// isDark reports whether a module is dark. There is no module outside of the square.
func (c *code) isDark(x, y int) bool { return c.dark[y*c.modules+x] }

// encode returns the smallest code of a text, with the mask that is the easiest to read.
func encode(text string, level Level) (*code, error) {
	content := coding.String(text)
	version := coding.Version(coding.MinVersion)
	for content.Bits(version) > version.DataBytes(levels[level])*8 {
		if version++; version > coding.MaxVersion {
			return nil, fmt.Errorf("a text of %d bytes is too long for a QR code", len(text))
		}
	}
	var best *code
	lowest := 0
	for mask := range masks {
		c, err := encodeMasked(content, version, level, coding.Mask(mask))
		if err != nil {
			return nil, fmt.Errorf("encoding a QR code: %w", err)
		}
		if p := c.penalty(); best == nil || p < lowest {
			best, lowest = c, p
		}
	}
	return best, nil
}

// masks is the number of patterns that may be laid over the data of a code.
const masks = 8

func encodeMasked(content coding.Encoding, version coding.Version, level Level, mask coding.Mask) (*code, error) {
	plan, err := coding.NewPlan(version, levels[level], mask)
	if err != nil {
		return nil, err
	}
	encoded, err := plan.Encode(content)
	if err != nil {
		return nil, err
	}
	c := &code{modules: encoded.Size, dark: make([]bool, 0, encoded.Size*encoded.Size)}
	for y := range encoded.Size {
		for x := range encoded.Size {
			c.dark = append(c.dark, encoded.Black(x, y))
		}
	}
	return c, nil
}

// The penalties of ISO/IEC 18004:2015, section 7.8.3, for patterns that mislead readers.
const (
	minRun          = 5 // modules of one color in a row
	runPenalty      = 3 // and 1 for each further module
	blockPenalty    = 3
	finderPenalty   = 40
	balancePenalty  = 10 // for each 5 % of difference from half dark, half light
	balanceStep     = 5
	finderLength    = 11
	finderThenLight = 0b10111010000 // the center of a finder pattern, and four light modules
	lightThenFinder = 0b00001011101
)

// penalty returns how much the patterns of a code mislead readers.
func (c *code) penalty() int {
	sum, dark := 0, 0
	for i := range c.modules {
		sum += c.linePenalty(func(j int) bool { return c.isDark(j, i) })
		sum += c.linePenalty(func(j int) bool { return c.isDark(i, j) })
	}
	for y := range c.modules {
		for x := range c.modules {
			if c.isDark(x, y) {
				dark++
			}
			if x > 0 && y > 0 && c.isBlock(x, y) {
				sum += blockPenalty
			}
		}
	}
	difference := max(2*dark-len(c.dark), len(c.dark)-2*dark) * 100 / (2 * len(c.dark)) // in percent
	return sum + difference/balanceStep*balancePenalty
}

// linePenalty returns the penalty of a row or column.
func (c *code) linePenalty(isDark func(int) bool) (sum int) {
	run, last, recent := 0, false, 0
	for j := range c.modules {
		dark := isDark(j)
		if dark != last {
			run, last = 0, dark
		}
		switch run++; {
		case run == minRun:
			sum += runPenalty
		case run > minRun:
			sum++
		}
		recent = recent << 1 & (1<<finderLength - 1)
		if dark {
			recent |= 1
		}
		if j >= finderLength-1 && (recent == finderThenLight || recent == lightThenFinder) {
			sum += finderPenalty
		}
	}
	return sum
}

// isBlock reports whether a module and the three above and before it have the same color.
func (c *code) isBlock(x, y int) bool {
	dark := c.isDark(x, y)
	return c.isDark(x-1, y) == dark && c.isDark(x, y-1) == dark && c.isDark(x-1, y-1) == dark
}
