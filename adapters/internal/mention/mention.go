// Package mention holds the settings of all platforms that say which messages of groups
// and channels are addressed to a bot.
package mention

import (
	"fmt"
	"regexp"
	"slices"
)

// Settings name chats by their IDs.
type Settings struct {
	RequireMention bool              // answer only when mentioned or replied to
	Strict         bool              // require a mention in threads too
	AutoThread     bool              // a message to the bot starts a thread
	Free           []string          // chats in which everything is answered
	Allowed        []string          // chats whose messages are processed; empty: all
	Ignored        []string          // chats whose messages are never processed
	Patterns       []string          // RE2, any case; each counts as a mention
	Native         []string          // chats in which Patterns do not count
	Prompts        map[string]string // extra prompts by chat
}

// Rules are Settings with compiled patterns.
type Rules struct {
	Settings
	patterns []*regexp.Regexp
}

// NewRules compiles the patterns. Its error names the invalid one.
func NewRules(s Settings) (Rules, error) {
	r := Rules{Settings: s}
	for _, p := range s.Patterns {
		re, err := regexp.Compile("(?i)" + p)
		if err != nil {
			return Rules{}, fmt.Errorf("mention_patterns: %q is not a regular expression: %w", p, err)
		}
		r.patterns = append(r.patterns, re)
	}
	return r, nil
}

// Match reports whether a pattern matches text.
func (r Rules) Match(text string) bool {
	return slices.ContainsFunc(r.patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}
