package yamlconf

import (
	"slices"
	"strings"
)

// nearest returns the name most similar to s, or "" if none is similar. It ignores
// case, dashes and underscores.
func nearest(s string, names []string) string {
	best, found := 1+max(1, len(s)/3), ""
	for _, n := range names {
		if d := distance(plain(s), plain(n)); d < best {
			best, found = d, n
		}
	}
	return found
}

func plain(s string) string { return strings.ToLower(separators.Replace(s)) }

var separators = strings.NewReplacer("-", "", "_", "")

// maxCompared limits the length of compared strings in bytes.
const maxCompared = 64

// distance returns the number of insertions, deletions, changes and swaps of
// neighbors that turn a into b. It compares at most the first 64 bytes of each.
func distance(a, b string) int {
	a, b = a[:min(len(a), maxCompared)], b[:min(len(b), maxCompared)]
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = above, row, before
	}
	return rows[1][len(b)]
}

// hint suggests what an unknown key may mean: a similar name in the section, a key
// of the same name elsewhere, or else the known names.
func hint(key string, here []string, everywhere []string) string {
	if n := nearest(key, here); n != "" {
		return "did you mean " + n + "?"
	}
	for _, path := range everywhere {
		if leaf := path[strings.LastIndexByte(path, '.')+1:]; plain(leaf) == plain(key) {
			return "did you mean " + path + "?"
		}
	}
	here = slices.Sorted(slices.Values(here))
	if len(here) > 12 {
		here = append(here[:12:12], "…")
	}
	return "known here: " + strings.Join(here, ", ")
}
