package visitor

import "net/http"

// Stored returns the fields of a visit that are stored: of private visitors, only whether they are bots.
// rawQuery is that of the short URL, location the destination.
func (v *Reading) Stored(rawQuery, location string) Visit {
	if v.Private {
		return Visit{Bot: v.Bot}
	}
	stored := v.Visit
	stored.readCampaign(rawQuery)
	stored.readCampaign(queryOf(location))
	return stored
}

// IsPrivate reports whether the visitor opted out of profiling: `DNT: 1` or `Sec-GPC: 1`.
func IsPrivate(h http.Header) bool { return first(h, "Dnt") == "1" || first(h, "Sec-Gpc") == "1" }
