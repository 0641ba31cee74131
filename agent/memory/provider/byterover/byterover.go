// Package byterover keeps memories by brv, the command line program of ByteRover. Its
// knowledge is in files of the Hermes home, a directory for each person.
//
// brv starts a background process of its own, which outlives the daemon.
package byterover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
	"hermesd/internal/shorten"
)

// label names the provider to people.
const label = "ByteRover"

const (
	missing = label + ": brv is not installed: npm install -g byterover-cli@3.14.0, then brv providers connect"
	// callersModel is the error of newer versions. A model that is set up in brv changes
	// nothing there.
	callersModel = label + ": this version of brv has its caller run the model and stores nothing here: npm install -g byterover-cli@3.14.0"
)

// Time limits of the commands.
const (
	statusTime = 15 * time.Second
	searchTime = 25 * time.Second // 1 to 8 s, more if its background process starts
	queryTime  = 30 * time.Second
	curateTime = 120 * time.Second
)

// Limits of texts, in characters.
const (
	maxQuery      = 5000
	maxSide       = 2000 // of a message of a turn
	minSide       = 10   // shorter words of a person are not worth a model call
	maxCheckpoint = 500  // of a message before a compaction
	lastMessages  = 10   // that many of these
	maxCurate     = 25_000
	maxResult     = 8000
	minResult     = 20 // of a query; less says nothing
)

type client struct {
	dir    string // of the owner
	getenv func(string) string
	key    secret.Value
	auto   bool // turns are stored
	making sync.Mutex
}

// Open returns the provider.
func Open(s provider.Source) (provider.Provider, []string, error) {
	if !filepath.IsAbs(s.Home) {
		return nil, nil, fmt.Errorf("memory.byterover: the home %q is not an absolute path", s.Home)
	}
	section := s.Section
	if len(section) == 0 {
		section = json.RawMessage("{}")
	}
	o, err := settings.Parse("memory.byterover", section)
	if err != nil {
		return nil, nil, err
	}
	c := &client{
		dir: filepath.Join(s.Home, "byterover"), getenv: s.Getenv,
		key: secret.Value(strings.TrimSpace(s.Getenv("BRV_API_KEY"))), auto: o.Bool("auto_extract", true),
	}
	s.Learn(c.key)
	warnings := o.Unknown()
	if c.binary() == "" {
		warnings = append(warnings, missing)
	}
	return c, warnings, nil
}

func (c *client) About() provider.About {
	return provider.About{
		Name: "byterover", Label: label, Place: c.dir,
		Header: "# ByteRover memory\nActive. What is known of earlier conversations is recalled with each message. " +
			"brv_query asks it a question, brv_curate stores facts, decisions and preferences, brv_status shows its state.",
		Tools: []provider.Tool{
			{Name: "brv_query", Description: "Ask the knowledge of earlier conversations a question. Takes several seconds.", Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)},
			{Name: "brv_curate", Description: "Store facts, decisions or preferences for later conversations. Takes up to two minutes.", Writes: true, Schema: json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]}`)},
			{Name: "brv_status", Description: "Show version, project and account of ByteRover.", Owners: true, Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
		},
		RecallAlone: true, Checkpoints: true,
		Cannot: "what was said in a single conversation, and copies in ByteRover's cloud: it has no command that deletes",
	}
}

// Check asks for the model that brv is set up with: without one, and in newer versions
// always, it answers and stores nothing. Without a text curate only says what is wrong.
func (c *client) Check(ctx context.Context) (h provider.Health, err error) {
	var active struct {
		ID      string `json:"providerId"`
		Model   string `json:"activeModel"`
		Warning string `json:"warning"` // that a login is missing
	}
	if err := c.run(ctx, command{args: []string{"providers"}, limit: statusTime}, &active); err != nil {
		return h, err
	}
	if active.ID == "" || active.Warning != "" {
		return h, &provider.Error{Class: provider.Auth, Text: label + ": " + cmp.Or(shorten.Line(active.Warning, 200), "no model is set up: run brv providers connect")}
	}
	h.Detail = shorten.Line(strings.TrimSuffix("model of brv: "+active.ID+" "+active.Model, " "), 100)
	err = c.run(ctx, command{args: []string{"curate"}, limit: statusTime}, new(curated))
	if provider.ClassOf(err) == provider.Refused { // the text is missing
		return h, nil
	}
	return h, err
}

// Standing returns nothing: ByteRover knows only what is asked.
func (c *client) Standing(context.Context, provider.Scope) (string, error) { return "", nil }

func (c *client) Close() error { return nil }

// front matches the head of a file, which is not part of its text.
var front = lazyregexp.New(`(?s)\A\s*---\n.*?\n---\n`)

func (c *client) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	if query = strings.TrimSpace(query); query == "" {
		return nil, nil
	}
	var found struct {
		Results []struct {
			Title   string `json:"title"`
			Path    string `json:"path"`
			Excerpt string `json:"excerpt"`
		} `json:"results"`
	}
	do := command{person: s.Person, args: []string{"search", "--limit", "10"}, text: shorten.To(query, maxQuery), limit: searchTime}
	if err := c.run(ctx, do, &found); err != nil {
		return nil, err
	}
	var out []provider.Item
	for _, r := range found.Results {
		text := strings.TrimSpace(front().ReplaceAllString(r.Excerpt, ""))
		if text = cmp.Or(text, strings.TrimSpace(r.Title)); text != "" {
			out = append(out, provider.Item{ID: r.Path, Text: text})
		}
	}
	return out, nil
}

func (c *client) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	text := ""
	switch e.Kind {
	case provider.Turn:
		text = turnText(e.Messages)
	case provider.Checkpoint:
		text = checkpointText(e.Messages)
	case provider.Added:
		return c.store(ctx, e.Scope.Person, source(e.Fact)+e.Fact.Text)
	case provider.Removed:
		return c.store(ctx, e.Scope.Person, source(e.Fact)+"This is no longer true or wanted; remove it from the knowledge: "+e.Fact.Text)
	case provider.End:
		return provider.Receipt{}, nil
	case provider.Forget:
		if e.Scope.Session != "" {
			return provider.Receipt{}, nil // see About
		}
		return provider.Receipt{}, c.forget(e.Scope.Person)
	default:
		return provider.Receipt{}, &provider.Error{Class: provider.Refused, Text: label + ": unknown event " + string(e.Kind)}
	}
	if !c.auto || text == "" {
		return provider.Receipt{}, nil
	}
	return c.store(ctx, e.Scope.Person, text)
}

// source returns the words with which upstream marks facts of the built-in memory.
func source(f provider.Fact) string {
	if f.Target == "user" {
		return "[User profile] "
	}
	return "[Agent memory] "
}

// turnText returns what is stored of a turn; "" if it says too little.
func turnText(messages []provider.Message) string {
	said := 0
	for _, m := range messages {
		if m.Role == "user" {
			said += utf8.RuneCountInString(strings.TrimSpace(m.Text))
		}
	}
	if said < minSide {
		return ""
	}
	return join(messages, maxSide)
}

// checkpointText returns what is stored of messages that leave the context.
func checkpointText(messages []provider.Message) string {
	text := join(messages[max(0, len(messages)-lastMessages):], maxCheckpoint)
	if text == "" {
		return ""
	}
	return "[Pre-compression context]\n" + text
}

// join returns the texts of messages, each with at most limit characters.
func join(messages []provider.Message, limit int) string {
	var lines []string
	for _, m := range messages {
		text := strings.TrimSpace(m.Text)
		if text == "" {
			continue
		}
		name := "User: "
		if m.Role != "user" {
			name = "Assistant: "
		}
		lines = append(lines, name+shorten.To(text, limit))
	}
	return shorten.To(strings.Join(lines, "\n"), maxCurate)
}

// A curated is the answer of a curate.
type curated struct {
	Task    string `json:"taskId"`
	Status  string `json:"status"`
	Changes struct {
		Created []string `json:"created"`
		Updated []string `json:"updated"`
	} `json:"changes"`
	Review struct {
		Count int    `json:"count"`
		Task  string `json:"taskId"`
	} `json:"pendingReview"`
}

func (c *client) curate(ctx context.Context, person, text string) (curated, error) {
	var out curated
	args := []string{"curate", "--timeout", fmt.Sprint(int(curateTime.Seconds()))}
	err := c.run(ctx, command{person: person, args: args, text: shorten.To(text, maxCurate), limit: curateTime}, &out)
	if err == nil {
		err = completed(out.Status)
	}
	return out, err
}

// completed returns the error of a task that has not failed, and has another status.
func completed(status string) error {
	switch status {
	case "completed":
		return nil
	case "needs-llm-step":
		return &provider.Error{Class: provider.Auth, Text: callersModel}
	}
	return garbage(fmt.Errorf("status %q", status))
}

func (c *client) store(ctx context.Context, person, text string) (provider.Receipt, error) {
	out, err := c.curate(ctx, person, text)
	if err != nil {
		return provider.Receipt{}, err
	}
	return provider.Receipt{ID: out.Task}, nil
}

// forget deletes everything of a person but the settings of the project.
func (c *client) forget(person string) error {
	dir, err := c.project(person)
	if err == nil {
		dir = filepath.Join(dir, ".brv")
		entries, readErr := os.ReadDir(dir)
		err = readErr
		for _, e := range entries {
			if e.Name() != "config.json" {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
	}
	if err != nil {
		return &provider.Error{Class: provider.Down, Text: label + ": its files cannot be deleted: " + err.Error(), Err: err}
	}
	return nil
}

// Synced returns ErrUnknown: ByteRover cannot be asked.
func (c *client) Synced(context.Context, provider.Event, provider.Receipt) (bool, error) {
	return false, provider.ErrUnknown
}

func (c *client) Call(ctx context.Context, s provider.Scope, tool string, raw json.RawMessage) (string, error) {
	result, err := c.call(ctx, s, tool, raw)
	if err != nil && provider.ClassOf(err) == provider.Refused { // brv is well
		return encode("error", err.Error()), nil
	}
	return result, err
}

func (c *client) call(ctx context.Context, s provider.Scope, tool string, raw json.RawMessage) (string, error) {
	var in struct {
		Query   string `json:"query"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return encode("error", "the parameters are not valid: "+err.Error()), nil
	}
	in.Query, in.Content = strings.TrimSpace(in.Query), strings.TrimSpace(in.Content)
	switch {
	case tool == "brv_query" && in.Query == "":
		return encode("error", "query is required"), nil
	case tool == "brv_curate" && (in.Content == "" || utf8.RuneCountInString(in.Content) > maxCurate):
		return encode("error", fmt.Sprintf("content is required, at most %d characters", maxCurate)), nil
	case tool == "brv_query":
		return c.query(ctx, s.Person, in.Query)
	case tool == "brv_curate":
		out, err := c.curate(ctx, s.Person, in.Content)
		if err != nil {
			return "", err
		}
		result := "Stored."
		if out.Review.Count > 0 {
			result = fmt.Sprintf("%d changes wait for a person: brv review approve %s", out.Review.Count, cmp.Or(out.Review.Task, out.Task))
		}
		return encode("result", result), nil
	case tool == "brv_status":
		var status json.RawMessage
		if err := c.run(ctx, command{person: s.Person, args: []string{"status"}, limit: statusTime}, &status); err != nil {
			return "", err
		}
		return encode("status", shorten.To(string(status), maxResult)), nil
	}
	return encode("error", "unknown tool "+tool), nil
}

func (c *client) query(ctx context.Context, person, query string) (string, error) {
	var out struct {
		Result  string `json:"result"`
		Content string `json:"content"`
		Status  string `json:"status"`
	}
	do := command{person: person, args: []string{"query"}, text: shorten.To(query, maxQuery), limit: queryTime}
	err := c.run(ctx, do, &out)
	if err == nil {
		err = completed(out.Status)
	}
	if err != nil {
		return "", err
	}
	result := strings.TrimSpace(cmp.Or(out.Result, out.Content))
	if utf8.RuneCountInString(result) < minResult {
		return encode("result", "Nothing was found."), nil
	}
	return encode("result", shorten.To(result, maxResult)), nil
}

// encode returns a JSON object for the model.
func encode(key, value string) string {
	b, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		return `{"error":"the result cannot be shown"}`
	}
	return string(b)
}
