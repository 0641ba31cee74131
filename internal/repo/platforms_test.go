package repo_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// maxPlatformNames is how often product code outside of the adapters, their list, the
// configuration and its setup names a platform. It only falls: a platform's facts are in its adapter.
const maxPlatformNames = 20

func TestPlatformNamesDoNotSpread(t *testing.T) {
	outside := []string{"adapters", "cmd/internal/platforms", "cmd/internal/config", "cmd/internal/setup", "cmd/internal/demo", "cmd/hermesd-demo", "internal/sim", "internal/bench", "docs"}
	counts, total := map[string]int{}, 0
	sources(t, func(path, pkg string) {
		if strings.HasSuffix(pkg, "test") || slices.ContainsFunc(outside, func(dir string) bool { return under(pkg, dir) }) {
			return
		}
		n := platformNames(t, path)
		counts[pkg] += n
		total += n
	})
	var folders []string
	for pkg, n := range counts {
		if n > 0 {
			folders = append(folders, fmt.Sprintf("%4d %s", n, pkg))
		}
	}
	slices.SortFunc(folders, func(a, b string) int { return strings.Compare(b, a) })
	list := strings.Join(folders, "\n")
	switch {
	case total > maxPlatformNames:
		t.Errorf("platforms are named %d times, more than %d:\n%s", total, maxPlatformNames, list)
	case total < maxPlatformNames:
		t.Logf("platforms are named %d times: lower maxPlatformNames, now %d:\n%s", total, maxPlatformNames, list)
	}
}

// platformNames returns how often identifiers and strings of a file contain the name of a
// platform.
func platformNames(t *testing.T, path string) (n int) {
	t.Helper()
	src := read(t, path)
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(path, -1, len(src)), src, nil, 0)
	for {
		_, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return n
		case token.IDENT, token.STRING:
			text = strings.ReplaceAll(strings.ToLower(text), "timerslack", "") // of Linux
			for _, name := range []string{"telegram", "discord", "slack"} {
				n += strings.Count(text, name)
			}
		}
	}
}
