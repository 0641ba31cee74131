// Package similar compares names that people type with those that exist.
package similar

// maxCompared limits the length of compared strings in bytes.
const maxCompared = 64

// Distance returns the number of insertions, deletions, changes and swaps of
// neighbors that turn a into b. It compares at most the first 64 bytes of each.
func Distance(a, b string) int {
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
