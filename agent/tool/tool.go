// Package tool defines the interface of tools that a model can call, what a call carries,
// and Set, the fixed list of tools of an agent. It also truncates and summarizes inputs and
// results. The tools themselves are in agent/tools; which of them a turn may use is decided
// by the caller.
package tool

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/internal/shorten"
)

// An Effect says what a second run of the same call would do. It decides what happens to a
// call that was running when the process died.
type Effect string

// The effects. After a crash, pure and idempotent calls run again. A call that may run at
// most once does not: the model is told that its outcome is unknown.
const (
	Pure       Effect = "pure"
	Idempotent Effect = "idempotent"
	AtMostOnce Effect = "once"
)

// A Spec describes a tool.
type Spec struct {
	llm.Tool
	Effect Effect
	// Parallel reports whether calls may run at the same time as other parallel calls.
	Parallel bool
	// MaxResult is the maximum length of a result in characters; 0 means DefaultMaxResult.
	MaxResult int
}

// DefaultMaxResult is the maximum length of a result, in characters, of tools that set no
// limit.
const DefaultMaxResult = 100_000

// A Call is one use of a tool.
type Call struct {
	ID         string
	Input      json.RawMessage // valid JSON, an object
	Session    string          // session ID
	Transcript *llm.Transcript // read-only; the messages so far
	// Replaced returns a message that a compaction of the running turn has replaced, by its
	// number in the whole transcript. Such messages are stored when the turn ends; a nil
	// Replaced has none.
	Replaced func(row int) (m llm.Message, ok bool)
	User     UserChannel // reaches the user of the turn
	Tools    Set         // those that the turn offers to its model, with the one that is called
	// CheckTool returns why a tool may not be used in the turn, nil if it may. A nil
	// CheckTool allows all tools. A tool that runs other tools in its name calls it for
	// each of them.
	CheckTool func(tool string) error
}

// A Tool can be called by a model. Its methods may be called from several goroutines.
type Tool interface {
	Spec() Spec
	// Run returns the result as the model reads it. An error is a result too: the model
	// reads its text.
	Run(ctx context.Context, c Call) (string, error)
}

// A Set is a fixed set of tools, ordered by name.
type Set struct{ tools []Tool }

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewSet returns the set of tools. It rejects duplicate names, and names and schemas that a
// provider would reject, so that one bad tool cannot fail every turn.
func NewSet(tools ...Tool) (Set, error) {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Spec().Name, b.Spec().Name) })
	for i, t := range tools {
		s := t.Spec()
		var object struct {
			Type string `json:"type"`
		}
		switch {
		case !validName.MatchString(s.Name):
			return Set{}, fmt.Errorf("tool: name %q is not valid", s.Name)
		case i > 0 && tools[i-1].Spec().Name == s.Name:
			return Set{}, fmt.Errorf("tool: two tools are called %q", s.Name)
		case json.Unmarshal(s.Schema, &object) != nil || object.Type != "object":
			return Set{}, fmt.Errorf("tool: the schema of %s is not a JSON Schema of an object", s.Name)
		}
	}
	return Set{tools}, nil
}

// Lookup returns the tool called name.
func (s Set) Lookup(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(s.tools, name, func(t Tool, n string) int { return cmp.Compare(t.Spec().Name, n) })
	if !ok {
		return nil, false
	}
	return s.tools[i], true
}

// Filter returns the set of the tools of s whose names keep accepts.
func (s Set) Filter(keep func(name string) bool) Set {
	return Set{slices.DeleteFunc(slices.Clone(s.tools), func(t Tool) bool { return !keep(t.Spec().Name) })}
}

// Tools returns the definitions that are sent to the model, ordered by name.
func (s Set) Tools() []llm.Tool {
	out := make([]llm.Tool, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.Spec().Tool
	}
	return out
}

// Names returns the names of the tools, in order.
func (s Set) Names() []string {
	out := make([]string, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.Spec().Name
	}
	return out
}

// Definition returns the definition of a tool whose description is the file name.md of
// texts, and whose schema is name.json.
func Definition(texts embed.FS, name string) llm.Tool {
	text := func(ending string) string {
		b, err := texts.ReadFile(name + ending)
		if err != nil {
			panic(err) // the program was built without it
		}
		return strings.TrimSpace(string(b))
	}
	return llm.Tool{Name: name, Description: text(".md"), Schema: json.RawMessage(text(".json"))}
}

// New returns a tool whose input is decoded into an In. Fields that In does not have are
// ignored. For an input that cannot be decoded, the model gets an error text and run is not
// called. Constraints of the schema beyond types are checked by run itself.
func New[In any](s Spec, run func(ctx context.Context, c Call, in In) (string, error)) Tool {
	return typed[In]{s, run}
}

type typed[In any] struct {
	spec Spec
	run  func(context.Context, Call, In) (string, error)
}

func (t typed[In]) Spec() Spec { return t.spec }

func (t typed[In]) Run(ctx context.Context, c Call) (string, error) {
	var in In
	if err := json.Unmarshal(c.Input, &in); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return "", fmt.Errorf("the argument %q does not take a %s", wrong.Field, wrong.Value)
		}
		return "", fmt.Errorf("the arguments do not fit: %w", err)
	}
	return t.run(ctx, c, in)
}

// Small is the toolset for models with a small context window. With the short guidance
// (prompt.Inputs.Short) it takes at most 2,000 tokens.
const Small = "small"

// Toolsets returns the groups of tools by name. A tool that is in none is a toolset of its
// own. Skills name the toolsets that they require or replace, so some groups contain tools
// that hermesd does not have.
func Toolsets() map[string][]string {
	return map[string][]string{
		"web":            {"web_search", "web_extract"},
		"terminal":       {"terminal", "process"},
		"file":           {"read_file", "write_file", "patch", "search_files"},
		"vision":         {"vision_analyze"},
		"image_gen":      {"image_generate"},
		"tts":            {"text_to_speech"},
		"browser":        {"browser_navigate"},
		"skills":         {"skills_list", "skill_view", "skill_manage"},
		"code_execution": {"execute_code"},
		"delegation":     {"delegate_task"},
		"messaging":      {"send_message"},
		"memory": { // and the tools of the external memory providers
			"memory", "memory_recall", "honcho_profile", "honcho_search", "honcho_reasoning", "honcho_context", "honcho_conclude",
			"viking_search", "viking_read", "viking_browse", "viking_remember", "viking_forget", "viking_add_resource",
			"mem0_list", "mem0_search", "mem0_add", "mem0_update", "mem0_delete", "hindsight_retain", "hindsight_recall", "hindsight_reflect",
			"fact_store", "fact_feedback", "retaindb_profile", "retaindb_search", "retaindb_context", "retaindb_remember", "retaindb_forget",
			"retaindb_upload_file", "retaindb_list_files", "retaindb_read_file", "retaindb_ingest_file", "retaindb_delete_file",
			"brv_query", "brv_curate", "brv_status", "supermemory_store", "supermemory_search", "supermemory_forget", "supermemory_profile",
		},
		Small:            {"terminal", "read_file", "write_file", "memory", "session_search"},
		"context_engine": {"lcm_grep", "lcm_describe", "lcm_expand"},
	}
}

// MeansAll reports whether the name of a toolset means all tools. This includes the
// toolsets of upstream Hermes that are named after it (hermes-cli, hermes-telegram).
func MeansAll(name string) bool {
	return name == "all" || name == "*" || strings.HasPrefix(name, "hermes-")
}

// Select returns those of tools that names contains, by their own name or by that of a
// toolset. Empty names select all tools. It may reuse the array of tools.
func Select(tools []llm.Tool, names []string) []llm.Tool {
	if len(names) == 0 {
		return tools
	}
	sets := Toolsets()
	return slices.DeleteFunc(tools, func(t llm.Tool) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return n == t.Name || slices.Contains(sets[n], t.Name) })
	})
}

// Without returns those of tools that names does not contain, by their own name or by
// that of a toolset. A name that means all tools leaves none.
func Without(tools []Tool, names []string) []Tool {
	sets := Toolsets()
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool {
		name := t.Spec().Name
		return slices.ContainsFunc(names, func(n string) bool { return MeansAll(n) || n == name || slices.Contains(sets[n], name) })
	})
}

// ToolsetsOf returns the sorted names of the toolsets that have at least one of tools. The
// result is never nil: a session without tools has an empty list. Small, whose tools are those of
// others, is not among them.
func ToolsetsOf(tools []llm.Tool) []string {
	sets := []string{}
	for _, t := range tools {
		of := t.Name
		for set, names := range Toolsets() {
			if set != Small && slices.Contains(names, t.Name) {
				of = set
			}
		}
		sets = append(sets, of)
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

// A UserChannel is how a tool reaches the users of its turn. The model reads the texts of the
// errors.
type UserChannel interface {
	// Ask sends a question to the user whose message started the turn, and waits for the
	// answer. The error is ErrUnattended if there is no such user.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Approve requests permission to run what r describes, and returns nil once it is
	// granted.
	Approve(ctx context.Context, r ApprovalRequest) error
	// Send sends a message to another chat, or to this one in addition to the answer. It
	// returns when the message is durably queued, with a text that says where it goes.
	Send(ctx context.Context, m Message) (string, error)
}

// Unattended is the UserChannel of a turn without a user. Nothing can be sent either.
type Unattended struct{}

// A Question is sent to the user while a tool waits for the Answer.
type Question struct {
	Text    string   // Markdown
	Choices []string // answers that a button or a number selects; none: any text
}

// An Answer is the user's reply to a Question. Choice is the index of the chosen answer
// from 0 on, -1 if the reply is none of them.
type Answer struct {
	Text   string
	Choice int
}

// An ApprovalRequest asks the user for permission to run a command or to change files.
type ApprovalRequest struct {
	Tool    string
	Command string   // byte for byte the command that will run, or the files and their changes
	Reasons []string // why it is dangerous, as texts for people
	// Shapes are what a grant for the session or for always covers: later requests all of
	// whose shapes are covered; empty: once only.
	Shapes []string
}

// A Message is sent by a tool to a target.
type Message struct {
	To    string // a target: "origin", "telegram", "telegram:123", "discord:#general", comma lists
	Text  string // Markdown
	Files []string
}

// ErrUnattended is returned for questions and approval requests in a turn without a user.
var ErrUnattended = errors.New("nobody is there to answer: this turn runs unattended")

// Ask implements UserChannel.
func (Unattended) Ask(context.Context, Question) (Answer, error) {
	return Answer{Choice: -1}, ErrUnattended
}

// Approve implements UserChannel.
func (Unattended) Approve(context.Context, ApprovalRequest) error { return ErrUnattended }

// Send implements UserChannel.
func (Unattended) Send(context.Context, Message) (string, error) {
	return "", errors.New("nothing can be sent from here: this run has no way to other chats")
}

// Truncate returns text with at most limit characters, with a note in place of its middle.
// Two thirds of what is kept come from the beginning and the rest from the end, cut between
// lines where a line end is near enough. Text that fits is returned unchanged. For a limit
// too small for the note, only the beginning is returned.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	total := utf8.RuneCountInString(text)
	if total <= limit {
		return text
	}
	const room = 80 // for the note
	if limit <= 2*room {
		return text[:shorten.Offset(text, max(limit, 0))]
	}
	keep := limit - room
	head := text[:shorten.Offset(text, keep*2/3)]
	tail := text[shorten.Offset(text, total-(keep-keep*2/3)):]
	if i := strings.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	left := total - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return fmt.Sprintf("%s\n\n[… %d of %d characters left out here …]\n\n%s", head, left, total, tail)
}

// FairShare returns the largest limit for which texts of these sizes, each truncated to it,
// have at most total characters together.
func FairShare(sizes []int, total int) int {
	sorted := slices.Sorted(slices.Values(sizes))
	for i, n := range sorted {
		rest := len(sorted) - i
		if n*rest > total {
			return total / rest
		}
		total -= n
	}
	if len(sorted) == 0 {
		return total
	}
	return sorted[len(sorted)-1]
}

// maxSummary is the maximum length of an InputSummary in characters, without the quotes.
const maxSummary = 60

// InputSummary returns a short description of a call for people: the first informative
// string of its input, shortened, as Markdown code. It is "" if there is none.
func InputSummary(input json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(input, &m) != nil {
		return ""
	}
	for _, key := range []string{"path", "query", "pattern", "command", "url", "name"} {
		s, ok := m[key].(string)
		if !ok || s == "" {
			continue
		}
		return "`" + shorten.Line(strings.ReplaceAll(s, "`", "'"), maxSummary) + "`"
	}
	return ""
}
