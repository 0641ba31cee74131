package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// parts are the headings of the parts of the demo that the picture shows.
var parts = []string{"kill -9 in the middle of a turn", "Result, by the records of the simulators"}

// restarted is in the line after which the answers come.
const restarted = "started again"

// platforms are in the order in which the demo sends messages to them.
var platforms = []string{"Telegram", "Discord", "Slack"}

var (
	clock    = regexp.MustCompile(`^(?:\x1b\[2m)? *[0-9]+\.[0-9]{2} s(?:\x1b\[m)?  `)
	duration = regexp.MustCompile(` after [0-9]+ ms$`)
)

// excerpt returns the lines of the demo's output that the picture shows, with their
// styles. What differs between runs although the demo did the same is not in them:
// times are removed, and the answers after the restart are sorted by platform. Answers
// on one platform keep their order. Nothing else is changed.
func excerpt(output string) ([]string, error) {
	var all []string
	for i, heading := range parts {
		lines, err := part(strings.Split(output, "\n"), heading)
		if err != nil {
			return nil, err
		}
		for i, line := range lines {
			lines[i] = duration.ReplaceAllString(clock.ReplaceAllString(line, ""), "")
		}
		if at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, restarted) }); at >= 0 {
			if err := sortAnswers(lines[at+1:]); err != nil {
				return nil, err
			}
		} else if i == 0 {
			return nil, fmt.Errorf("part %q does not say %q", heading, restarted)
		}
		if i > 0 {
			all = append(all, "")
		}
		all = append(all, lines...)
	}
	return all, nil
}

// part returns the lines from a heading to the next empty line. The rule that
// follows the heading is cut to the width of the picture.
func part(lines []string, heading string) ([]string, error) {
	start := slices.IndexFunc(lines, func(line string) bool {
		return strings.HasPrefix(ansi.Strip(line), "━━ "+heading+" ━")
	})
	if start < 0 {
		return nil, fmt.Errorf("the demo has no part %q", heading)
	}
	lines = lines[start:]
	end := slices.Index(lines, "")
	if end < 0 {
		return nil, fmt.Errorf("part %q has no end", heading)
	}
	lines = slices.Clone(lines[:end])
	lines[0] = ansi.Truncate(lines[0], maxColumns, "")
	return lines, nil
}

// sortAnswers sorts lines by the platform with which they begin. It returns an error
// if one begins otherwise, as the second line of a wrapped answer would.
func sortAnswers(lines []string) error {
	for _, line := range lines {
		if platform(line) < 0 {
			return fmt.Errorf("no answer on a platform: %q", ansi.Strip(line))
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return platform(a) - platform(b) })
	return nil
}

// platform returns the index of the platform with which a line begins; -1 for none.
func platform(line string) int {
	name, _, _ := strings.Cut(ansi.Strip(line), " ")
	return slices.Index(platforms, name)
}
