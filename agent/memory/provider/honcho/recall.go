package honcho

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/agent/memory/provider"
	"hermesd/internal/shorten"
)

const (
	maxStanding    = 4000 // characters
	maxSearch      = 500  // of a query in an address
	maxSection     = 1500 // of a section of the standing text
	summaryTokens  = "2000"
	charsPerToken  = 4
	levelStep      = 120 // characters of a query from which on more thought is asked for
	levelTwoSteps  = 400
	conclusionsMax = "20" // in one recall
)

var levels = []string{"minimal", "low", "medium", "high", "max"}

// known is what a peer knows about a peer.
type known struct {
	Representation string   `json:"representation"`
	Card           []string `json:"peer_card"`
}

// lookUp returns what a view shows, of what fits a query unless that is "".
func (c *client) lookUp(ctx context.Context, v view, query string) (k known, err error) {
	q := v.target()
	if query != "" {
		q.Set("search_query", shorten.To(query, maxSearch))
		q.Set("search_top_k", conclusionsMax)
	}
	err = c.get(ctx, "/peers/"+v.observer+"/context", q, &k)
	if provider.IsMissing(err) {
		return known{}, nil // nothing was said yet
	}
	return k, err
}

// summary returns the summary of a conversation's session.
func (c *client) summary(ctx context.Context, s provider.Scope) (string, error) {
	var got struct {
		Summary *struct{ Content string } `json:"summary"`
	}
	err := c.get(ctx, "/sessions/"+c.session(s)+"/context", url.Values{"summary": {"true"}, "tokens": {summaryTokens}}, &got)
	if provider.IsMissing(err) || err == nil && got.Summary == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return got.Summary.Content, nil
}

// Standing returns the summary of the session, and what is known about the person and,
// for owners, about the AI itself: that comes from conversations with everybody.
func (c *client) Standing(ctx context.Context, s provider.Scope) (string, error) {
	var parts []string
	add := func(section, title, text string) {
		if text = strings.TrimSpace(text); text != "" && slices.Contains(c.sections, section) {
			parts = append(parts, "## "+title+"\n"+shorten.To(text, maxSection-1))
		}
	}
	if slices.Contains(c.sections, "summary") {
		sum, err := c.summary(ctx, s)
		if err != nil {
			return "", err
		}
		add("summary", "Session Summary", sum)
	}
	v, err := c.view(ctx, s, c.user(s))
	if err != nil {
		return "", err
	}
	user, err := c.lookUp(ctx, v, "")
	if err != nil {
		return "", err
	}
	add("peerRepresentation", "User Representation", user.Representation)
	add("peerCard", "User Peer Card", strings.Join(user.Card, "\n"))
	if s.Person == "" && (slices.Contains(c.sections, "aiRepresentation") || slices.Contains(c.sections, "aiCard")) {
		ai, err := c.lookUp(ctx, view{c.ai, c.ai}, "")
		if err != nil {
			return "", err
		}
		add("aiRepresentation", "AI Self-Representation", ai.Representation)
		add("aiCard", "AI Identity Card", strings.Join(ai.Card, "\n"))
	}
	return strings.TrimSpace(shorten.To(strings.Join(parts, "\n\n"), c.budget(maxStanding)-1)), nil
}

// budget returns the limit of a text in characters: that of the configuration if it is
// less than otherwise.
func (c *client) budget(otherwise int) int {
	if c.tokens > 0 {
		return min(c.tokens*charsPerToken, otherwise)
	}
	return otherwise
}

// turn counts the recalls of a conversation.
func (c *client) turn(session string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) >= maxSessions {
		clear(c.turns)
	}
	c.turns[session]++
	return c.turns[session]
}

// Recall returns the conclusions that fit, and in every dialecticCadence-th turn before
// them the answer of Honcho's reasoning.
func (c *client) Recall(ctx context.Context, s provider.Scope, query string) (items []provider.Item, err error) {
	turn := c.turn(s.Session)
	if c.first && turn > 1 {
		return nil, nil
	}
	v, err := c.view(ctx, s, c.user(s))
	if err != nil {
		return nil, err
	}
	if query != "" && (turn-1)%c.cadence == 0 {
		answer, err := c.reason(ctx, v, "What do you know about this person that helps to answer what they say now? Say only facts.\n\n"+query, c.levelFor(query))
		if err != nil {
			return nil, err
		}
		if answer = strings.TrimSpace(answer); answer != "" {
			items = append(items, provider.Item{Text: shorten.To(answer, c.maxAnswer)})
		}
	}
	k, err := c.lookUp(ctx, v, query)
	if err != nil {
		return nil, err
	}
	left := c.budget(1 << 20)
	for line := range strings.Lines(k.Representation) {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "-*"))
		if left -= utf8.RuneCountInString(line); line == "" || strings.HasPrefix(line, "#") || left < 0 {
			continue
		}
		items = append(items, provider.Item{Text: line})
	}
	return items, nil
}

// reason asks Honcho's reasoning; "" if it knows nothing.
func (c *client) reason(ctx context.Context, v view, query, level string) (string, error) {
	body := object{"query": shorten.To(query, c.maxQuery-1), "stream": false, "reasoning_level": level}
	if v.about != v.observer {
		body["target"] = v.about
	}
	var got struct{ Content *string }
	err := c.ask(ctx, "/peers/"+v.observer+"/chat", nil, body, &got)
	if provider.IsMissing(err) || err == nil && got.Content == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return *got.Content, nil
}

// levelFor returns the level of reasoning for a query: that of the configuration, more for
// a long query up to the limit.
func (c *client) levelFor(query string) string {
	at, limit := max(slices.Index(levels, c.level), 0), slices.Index(levels, c.maxLevel)
	if limit < 0 {
		limit = slices.Index(levels, "high")
	}
	if n := utf8.RuneCountInString(query); !c.heuristic || at >= limit || n < levelStep {
		return levels[at]
	} else if n < levelTwoSteps {
		return levels[at+1]
	}
	return levels[min(at+2, limit)]
}
