package check

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// WarningCode is a kind of warnings. Its text is the name in the GraphQL schema.
type WarningCode string

// The kinds of warnings.
const (
	CountryUnavailable WarningCode = "COUNTRY_UNAVAILABLE"
	UnreachableRule    WarningCode = "UNREACHABLE_RULE"
	UnknownValue       WarningCode = "UNKNOWN_VALUE"
	PathNotForwarded   WarningCode = "PATH_NOT_FORWARDED"
	OwnHost            WarningCode = "OWN_HOST"
)

// Warning is a part of a routing that cannot have its effect on this server, or never applies.
type Warning struct {
	Code    WarningCode
	Message string
	// Field is the path of the part below the routing.
	Field []string
}

// WarningContext is what warnings depend on besides the routing.
type WarningContext struct {
	// HasCountries means that the server knows countries.
	HasCountries bool
	// AtRoot means that the short URL is at the root of the instance.
	AtRoot bool
	// IsBrowser and IsOS report whether visits can have the name.
	IsBrowser, IsOS func(name string) bool
	// Own are the URLs that point to this instance.
	Own map[string]bool
}

// Warnings returns the parts of a routing that cannot have their effect, or never apply.
func Warnings(r *routing.Routing, s *WarningContext) (found []*Warning) {
	add := func(code WarningCode, message string, field ...string) {
		found = append(found, &Warning{Code: code, Message: message, Field: field})
	}
	if r.ForwardPath && s.AtRoot {
		add(PathNotForwarded, "The short URL is at the root of this server, where a longer path has another meaning.",
			"forwardPath")
	}
	catchAll := -1
	for i, rule := range r.Rules {
		if !optional.Or(rule.Enabled, true) {
			continue
		}
		at := []string{"rules", strconv.Itoa(i)}
		if catchAll >= 0 {
			add(UnreachableRule,
				fmt.Sprintf("Rule %d, counted from 1, holds for every visit, so this one is never tried.",
					catchAll+1), at...)
		} else if alwaysDecides(rule) {
			catchAll = i
		}
		for list, conditions := range [][]*routing.Condition{rule.When, rule.Unless} {
			for j, k := range conditions {
				field := slices.Concat(at, []string{[...]string{"when", "unless"}[list], strconv.Itoa(j)})
				warn(k, s, func(code WarningCode, message string, below ...string) {
					add(code, message, slices.Concat(field, below)...)
				})
			}
		}
	}
	for _, u := range r.URLs() {
		if s.Own[u.URL] {
			add(OwnHost, "This URL now points to this instance, which is a redirect loop.", u.Field...)
		}
	}
	return found
}

// alwaysDecides reports whether the rule holds for every visit and always has an available target.
func alwaysDecides(r *routing.Rule) bool {
	return len(r.When) == 0 && len(r.Unless) == 0 && slices.ContainsFunc(r.Targets, func(t *routing.Target) bool {
		return t.EffectiveShare() > 0 && t.MaxClicks == nil
	})
}

// warn reports the values that no visit has.
func warn(k *routing.Condition, s *WarningContext, add func(code WarningCode, message string, below ...string)) {
	if k.Country != nil && !s.HasCountries {
		add(CountryUnavailable, "This server does not know countries: the country of every visit is unknown.",
			"country")
	}
	for i, name := range k.OS {
		if name != "" && !s.IsOS(name) {
			add(UnknownValue, "No visit has this name of an operating system.", "os", strconv.Itoa(i))
		}
	}
	for i, name := range k.Browser {
		if name != "" && !s.IsBrowser(name) {
			add(UnknownValue, "No visit has this name of a browser.", "browser", strconv.Itoa(i))
		}
	}
}
