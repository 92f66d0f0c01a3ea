package stats

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// exportedClick holds the fields of an exported click that are no texts of the visit.
type exportedClick struct {
	ID        string    `json:"id"`
	LinkID    string    `json:"linkId"`
	At        time.Time `json:"at"`
	Status    int       `json:"status"`
	Bot       bool      `json:"bot"`
	Visit     bool      `json:"visit"` // the first of its visitor on that day
	LatencyMs float64   `json:"latencyMs"`
}

// ExportLine is a click as a JSON object, without the texts of the visit that are not known.
type ExportLine click.Click

// MarshalJSON writes the fields in the order of ExportHead.
func (l *ExportLine) MarshalJSON() ([]byte, error) {
	c := (*click.Click)(l)
	b, err := json.Marshal(exportedClick{
		ID: c.PublicID(), LinkID: c.LinkID, At: c.ClickedAt, Status: c.Status, Bot: c.Bot, Visit: c.IsVisit,
		LatencyMs: c.LatencyMs,
	})
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("}"))
	for _, d := range click.VisitDimensions {
		if value := *d.Text(c); value != "" {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			b = append(b, `,"`+d.FieldName()+`":`...)
			b = append(b, text...)
		}
	}
	return append(b, '}'), nil
}

// ExportHead returns the names of the columns of exported clicks.
func ExportHead() []string {
	head := []string{"id", "linkId", "at", "status", "bot", "visit", "latencyMs"}
	for _, d := range click.VisitDimensions {
		head = append(head, d.FieldName())
	}
	return head
}

// ExportRow returns the cells of an exported click. No spreadsheet takes them for formulas, though
// a visitor chooses the campaign and the referrer.
func ExportRow(c *click.Click) []string {
	row := []string{
		c.PublicID(), c.LinkID, c.ClickedAt.Format(time.RFC3339Nano), strconv.Itoa(c.Status),
		strconv.FormatBool(c.Bot), strconv.FormatBool(c.IsVisit), strconv.FormatFloat(c.LatencyMs, 'f', -1, 64),
	}
	for _, d := range click.VisitDimensions {
		row = append(row, *d.Text(c))
	}
	for i, cell := range row {
		row[i] = validate.Cell(cell)
	}
	return row
}
