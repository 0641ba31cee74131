// Package timezone determines the IANA name of the time zone of the host.
package timezone

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Local returns the time zone of the host with its IANA name, or time.Local if the
// name cannot be determined.
var Local = sync.OnceValue(func() *time.Location { return named(time.Local, names("/")) })

// Name returns the IANA name of the time zone of the host or, if it cannot be
// determined, the UTC offset at t, such as "UTC+02:00".
func Name(t time.Time) string { return nameOf(Local(), t) }

func nameOf(zone *time.Location, t time.Time) string {
	if name := zone.String(); name != "Local" {
		return name
	}
	return t.In(zone).Format("UTC-07:00")
}

// names returns the candidate names of the zone in the files below root, the most
// reliable first.
func names(root string) []string {
	found := []string{strings.TrimPrefix(os.Getenv("TZ"), ":")}
	if to, err := os.Readlink(filepath.Join(root, "etc", "localtime")); err == nil {
		if _, name, ok := strings.Cut(filepath.ToSlash(to), "/zoneinfo/"); ok {
			found = append(found, strings.TrimPrefix(name, "posix/"))
		}
	}
	if raw, err := os.ReadFile(filepath.Join(root, "etc", "timezone")); err == nil && len(raw) < 100 {
		found = append(found, strings.TrimSpace(string(raw)))
	}
	return found
}

// named returns the first of the candidates with the same offsets as local, else
// local.
func named(local *time.Location, candidates []string) *time.Location {
	for _, name := range candidates {
		zone, err := time.LoadLocation(name)
		if name != "" && name != "Local" && err == nil && alike(zone, local) {
			return zone
		}
	}
	return local
}

// alike reports whether two zones have the same time in each month of some years.
func alike(a, b *time.Location) bool {
	for year := 2015; year < 2030; year++ {
		for month := time.January; month <= time.December; month++ {
			t := time.Date(year, month, 15, 12, 0, 0, 0, time.UTC)
			_, x := t.In(a).Zone()
			_, y := t.In(b).Zone()
			if x != y {
				return false
			}
		}
	}
	return true
}
