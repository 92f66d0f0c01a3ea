package page

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// maxCursor is how many bytes a cursor has at most: room for the longest title, which folding may
// have made 18 characters of each, and nothing to chew on.
const maxCursor = 16 << 10

// Cursor is the opaque cursor of the item with that id, in the order of ids, newest first.
func Cursor(itemID string) string { return Order{}.Cursor(nil, itemID) }

// Cursor is the opaque cursor of the item with that id and, but in an order of ids, that value: an
// int64 or a string.
func (o Order) Cursor(value any, itemID string) string {
	place := itemID
	if tag := o.tag(); tag != "" {
		place += " " + tag
	}
	switch value := value.(type) {
	case int64:
		place += " " + strconv.FormatInt(value, 10)
	case string:
		place += " " + value
	}
	return base64.RawURLEncoding.EncodeToString([]byte(place))
}

// tag distinguishes cursors of this order from those of others. The order by ID has none.
func (o Order) tag() string {
	if o.Ascending {
		return o.Name + "+"
	}
	return o.Name
}

// decode reads what Cursor has written, and nothing else: to write it again must give the same
// bytes.
func (o Order) decode(p id.Prefix, cursor *string, field string) (value any, itemID string, err error) {
	if cursor == nil {
		return nil, "", nil
	}
	refused := errs.New(errs.InvalidInput,
		"%s is not a cursor of this connection in this order: use one from its edges "+
			"or pageInfo.", field).At(field)
	if len(*cursor) > maxCursor {
		return nil, "", refused
	}
	place, err := base64.RawURLEncoding.DecodeString(*cursor)
	if err != nil {
		return nil, "", refused
	}
	itemID, rest, _ := strings.Cut(string(place), " ")
	value, ok := o.value(rest)
	if !ok || p != "" && !id.Valid(p, itemID) || p == "" && itemID != "" || o.Cursor(value, itemID) != *cursor {
		return nil, "", refused
	}
	return value, itemID, nil
}

// value reads what follows the id. The databases know neither NUL nor text that is not UTF-8.
func (o Order) value(rest string) (value any, ok bool) {
	if o.Name == "" {
		return nil, true
	}
	_, text, _ := strings.Cut(rest, " ")
	if o.Numbers {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	return text, utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}
