package honcho

import (
	"encoding/json"
	"fmt"
	"strings"
)

// matches reports whether fields fulfil a filter: equality, "*", nested objects as
// metadata, the operators gte lte gt lt ne in contains icontains, and AND, OR, NOT with
// lists.
func matches(filter map[string]any, fields map[string]any) bool {
	for name, want := range filter {
		list, _ := want.([]any)
		switch name {
		case "AND", "NOT", "OR":
			n := 0
			for _, f := range list {
				if sub, ok := f.(map[string]any); ok && matches(sub, fields) {
					n++
				}
			}
			if name == "AND" && n < len(list) || name == "OR" && n == 0 || name == "NOT" && n > 0 {
				return false
			}
		default:
			if !fits(want, fields[name]) {
				return false
			}
		}
	}
	return true
}

// fits reports whether a value is what a filter wants.
func fits(want, have any) bool {
	sub, ok := want.(map[string]any)
	if !ok {
		return want == "*" || fmt.Sprint(want) == fmt.Sprint(have)
	}
	for name, v := range sub {
		a, b := fmt.Sprint(have), fmt.Sprint(v)
		var ok bool
		switch name {
		case "gte":
			ok = a >= b
		case "lte":
			ok = a <= b
		case "gt":
			ok = a > b
		case "lt":
			ok = a < b
		case "ne":
			ok = a != b
		case "in":
			list, _ := v.([]any)
			for _, x := range list {
				ok = ok || fmt.Sprint(x) == a
			}
		case "contains":
			ok = strings.Contains(a, b)
		case "icontains":
			ok = strings.Contains(strings.ToLower(a), strings.ToLower(b))
		default: // a field of a nested object
			nested, _ := have.(map[string]any)
			ok = fits(v, nested[name])
		}
		if !ok {
			return false
		}
	}
	return true
}

// fieldsOf returns the JSON fields of a value.
func fieldsOf(v any) map[string]any {
	raw, _ := json.Marshal(v) // the simulator's own types
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return out
}

// filtered returns the items that fulfil a filter.
func filtered[T any](items []T, filter map[string]any) []T {
	out := []T{}
	for _, item := range items {
		if matches(filter, fieldsOf(item)) {
			out = append(out, item)
		}
	}
	return out
}
