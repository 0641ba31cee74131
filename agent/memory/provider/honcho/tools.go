package honcho

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"hermesd/agent/memory/provider"
	"hermesd/internal/shorten"
)

// Limits of honcho_search in tokens.
const (
	searchTokens    = 800
	maxSearchTokens = 2000
)

// shownMessages is how many messages honcho_context shows.
const shownMessages = 5

const peerProperty = `"peer":{"type":"string","description":"Whom to ask about: 'user' (default), 'ai', or the ID of a peer of the workspace."}`

func tools() []provider.Tool {
	tool := func(name, description, properties, required string, writes bool) provider.Tool {
		return provider.Tool{Name: name, Description: description, Writes: writes, Schema: json.RawMessage(`{"type":"object","properties":{` + properties + peerProperty + `},"required":[` + required + `]}`)}
	}
	return []provider.Tool{
		tool("honcho_profile", "Read or set the card of key facts about a person (name, role, preferences, style). With card it is replaced; without, it is read. An empty card is no error: the result has a hint.",
			`"card":{"type":"array","items":{"type":"string"},"description":"The new facts. Without it the card is read."},`, "", true),
		tool("honcho_search", "Search by meaning what Honcho knows about a person. Returns stored facts, without reasoning; cheaper and faster than honcho_reasoning.",
			`"query":{"type":"string","description":"What to search for."},"max_tokens":{"type":"integer","description":"Limit of the result (default 800, at most 2000)."},`, `"query"`, false),
		tool("honcho_reasoning", "Ask Honcho a question about a person and get an answer that its model has derived. Slower and dearer than honcho_search.",
			`"query":{"type":"string","description":"A question in plain language."},"reasoning_level":{"type":"string","enum":["minimal","low","medium","high","max"],"description":"How thoroughly: minimal for a simple fact, low (default), medium for several aspects, high for patterns and contradictions, max for everything."},`, `"query"`, false),
		tool("honcho_context", "Show what Honcho has of this conversation and of a person: summary, what is known, card, latest messages. Without reasoning.",
			`"query":{"type":"string","description":"Show only what fits this."},`, "", false),
		tool("honcho_conclude", "Store a lasting fact about a person, or delete one by its ID. Give exactly one of conclusion and delete_id. Delete only personal data that must go: Honcho corrects wrong facts itself.",
			`"conclusion":{"type":"string","description":"The fact to store."},"delete_id":{"type":"string","description":"The ID of the fact to delete."},`, "", true),
	}
}

// An input is the input of a tool.
type input struct {
	Peer       string   `json:"peer"`
	Card       []string `json:"card"`
	Query      string   `json:"query"`
	Tokens     int      `json:"max_tokens"`
	Level      string   `json:"reasoning_level"`
	Conclusion string   `json:"conclusion"`
	Delete     string   `json:"delete_id"`
}

// result returns the JSON of a tool's result.
func result(v any) (string, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}

func failure(format string, args ...any) (string, error) {
	return result(object{"error": fmt.Sprintf(format, args...)})
}

func (c *client) Call(ctx context.Context, s provider.Scope, tool string, raw json.RawMessage) (string, error) {
	run := map[string]func(context.Context, provider.Scope, view, input) (string, error){
		"honcho_profile": c.profile, "honcho_search": c.search, "honcho_reasoning": c.reasoning, "honcho_context": c.showContext, "honcho_conclude": c.concludeTool,
	}[tool]
	if run == nil {
		return failure("Unknown tool: %s", tool)
	}
	var in input
	if err := json.Unmarshal(raw, &in); err != nil {
		return failure("The input of %s is not valid: %v", tool, err)
	}
	about := c.user(s)
	switch {
	case in.Peer == "" || in.Peer == "user":
	case s.Person != "": // what the AI and other peers know comes from conversations with others
		return failure("Only peer 'user' may be asked about here.")
	case in.Peer == "ai":
		about = c.ai
	default:
		about = clean(in.Peer)
	}
	if about == c.ai {
		return run(ctx, s, view{c.ai, c.ai}, in)
	}
	v, err := c.view(ctx, s, about)
	if err != nil {
		return "", err
	}
	return run(ctx, s, v, in)
}

func (c *client) profile(ctx context.Context, _ provider.Scope, v view, in input) (string, error) {
	if len(in.Card) > 0 {
		if err := c.openWorkspace(ctx); err != nil {
			return "", err
		}
		if err := c.setCard(ctx, v, in.Card); err != nil {
			return "", err
		}
		return result(object{"result": fmt.Sprintf("Peer card updated (%d facts).", len(in.Card)), "card": in.Card})
	}
	var got struct {
		Card []string `json:"peer_card"`
	}
	for _, from := range slices.Compact([]view{v, {v.about, v.about}}) { // some servers keep it with the peer
		if err := c.get(ctx, "/peers/"+from.observer+"/card", from.target(), &got); err != nil && !provider.IsMissing(err) {
			return "", err
		}
		if len(got.Card) > 0 {
			break
		}
	}
	if len(got.Card) == 0 {
		return result(object{"result": "No profile facts available yet.", "hint": "This is not an error: Honcho makes the card from what is said over time. Set it with card, or try honcho_search."})
	}
	return result(object{"result": got.Card})
}

func (c *client) search(ctx context.Context, _ provider.Scope, v view, in input) (string, error) {
	if strings.TrimSpace(in.Query) == "" {
		return failure("Missing required parameter: query")
	}
	k, err := c.lookUp(ctx, v, in.Query)
	if err != nil {
		return "", err
	}
	found := strings.TrimSpace(k.Representation)
	for _, line := range k.Card {
		found += "\n- " + line
	}
	if found = strings.TrimSpace(found); found == "" {
		return result(object{"result": "No relevant context found."})
	}
	tokens := searchTokens
	if in.Tokens > 0 {
		tokens = min(in.Tokens, maxSearchTokens)
	}
	return result(object{"result": shorten.To(found, tokens*charsPerToken)})
}

func (c *client) reasoning(ctx context.Context, _ provider.Scope, v view, in input) (string, error) {
	if strings.TrimSpace(in.Query) == "" {
		return failure("Missing required parameter: query")
	}
	level := c.level
	if c.dynamic && slices.Contains(levels, in.Level) {
		level = in.Level
	}
	answer, err := c.reason(ctx, v, in.Query, level)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(answer) == "" {
		answer = "No result from Honcho."
	}
	return result(object{"result": answer})
}

func (c *client) showContext(ctx context.Context, s provider.Scope, v view, in input) (string, error) {
	q := url.Values{"summary": {"true"}, "tokens": {summaryTokens}, "peer_target": {v.about}, "peer_perspective": {v.observer}}
	if in.Query != "" {
		q.Set("search_query", shorten.To(in.Query, maxSearch))
	}
	var got struct {
		Summary  *struct{ Content string } `json:"summary"`
		Known    string                    `json:"peer_representation"`
		Card     []string                  `json:"peer_card"`
		Messages []struct {
			Content string `json:"content"`
			Peer    string `json:"peer_id"`
		} `json:"messages"`
	}
	if err := c.get(ctx, "/sessions/"+c.session(s)+"/context", q, &got); err != nil && !provider.IsMissing(err) {
		return "", err
	}
	var parts []string
	add := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, "## "+title+"\n"+text)
		}
	}
	if got.Summary != nil {
		add("Summary", got.Summary.Content)
	}
	add("Representation", got.Known)
	add("Card", strings.Join(got.Card, "\n"))
	var latest strings.Builder
	for _, m := range got.Messages[max(0, len(got.Messages)-shownMessages):] {
		fmt.Fprintf(&latest, "  [%s] %s\n", m.Peer, shorten.Line(m.Content, 200))
	}
	add("Recent messages", latest.String())
	if len(parts) == 0 {
		return result(object{"result": "No context available yet."})
	}
	return result(object{"result": strings.Join(parts, "\n\n")})
}

func (c *client) concludeTool(ctx context.Context, s provider.Scope, v view, in input) (string, error) {
	fact, id := strings.TrimSpace(in.Conclusion), strings.TrimSpace(in.Delete)
	if (fact == "") == (id == "") {
		return failure("Exactly one of conclusion or delete_id must be provided.")
	}
	if id == "" {
		if err := c.open(ctx, s); err != nil {
			return "", err
		}
		id, err := c.addConclusion(ctx, v, fact)
		if err != nil {
			return "", err
		}
		peer := in.Peer
		if peer == "" {
			peer = "user"
		}
		return result(object{"result": fmt.Sprintf("Conclusion saved for %s: %s", peer, fact), "id": id})
	}
	var got conclusion
	err := c.get(ctx, "/conclusions/"+url.PathEscape(id), nil, &got)
	owns := err == nil && c.owns(s, got.Observed)
	if owns {
		err = c.deleteConclusion(ctx, id)
	}
	switch {
	case provider.IsMissing(err) || err == nil && !owns:
		return failure("Failed to delete conclusion %s.", id)
	case err != nil:
		return "", err
	}
	return result(object{"result": fmt.Sprintf("Conclusion %s deleted.", id)})
}

// owns reports whether a peer is the person, or for owners the AI or the peer of the
// configuration.
func (c *config) owns(s provider.Scope, peer string) bool {
	return peer == c.user(s) || s.Person == "" && (peer == c.ai || c.peer != "" && peer == clean(c.peer))
}
