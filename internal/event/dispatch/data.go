package dispatch

import (
	"encoding/json"
	"strings"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// clickDimensions are the dimensions in the data of a click, in their order.
var clickDimensions = []click.Dimension{
	click.Country, click.Device, click.Browser, click.OS, click.Language, click.Referrer, click.Source, click.Medium,
	click.Campaign, click.Term, click.Content, click.QRSource, click.Rule, click.Target,
}

// eventData is the data of an event: fields of the types Event, FieldChange and Link, as the API
// returns them.
func (d *Dispatcher) eventData(e *audit.Event, changes []*audit.FieldChange, l *link.Link) object {
	fields := make([]object, 0, len(changes))
	for _, c := range changes {
		fields = append(fields, object{
			{"field", c.Field}, {"before", c.Before}, {"after", c.After}, {"omitted", c.Omitted},
		})
	}
	var target any
	if l != nil {
		target = append(d.linkData(l), field{"version", l.Version})
	}
	return object{
		{"id", e.ID}, {"type", e.Action}, {"at", e.At().UTC()}, {"actorId", optional.Of(e.ActorID)},
		{"operationId", e.OperationID}, {"changes", fields}, {"link", target},
	}
}

// clickData is the data of a click: the fields of the types Click and Link.
func (d *Dispatcher) clickData(c *click.Click, l *link.Link) object {
	data := object{{"id", c.PublicID()}, {"at", c.ClickedAt.UTC()}, {"status", c.Status}, {"bot", c.Bot}}
	for _, dimension := range clickDimensions {
		of := dimension.Definition()
		data = append(data, field{of.FieldName(), optional.Of(*of.Text(c))})
	}
	var target any
	if l != nil {
		target = d.linkData(l)
	}
	return append(data, field{"link", target})
}

func (d *Dispatcher) linkData(l *link.Link) object {
	return object{{"id", l.ID}, {"externalId", l.ExternalID}, {"shortUrl", d.Links.ShortURL(l)}}
}

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	fields := make([]string, 0, len(o))
	for _, f := range o {
		fields = append(fields, encode(f.name)+":"+encode(f.value))
	}
	return []byte("{" + strings.Join(fields, ",") + "}"), nil
}

// separators restores the characters that package json always escapes for JavaScript.
var separators = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

// encode returns a value as JSON. It does not escape characters for HTML and JavaScript, which would
// lengthen the data.
func encode(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // only a type that JSON does not know can do this
	}
	return separators.Replace(strings.TrimSuffix(b.String(), "\n"))
}
