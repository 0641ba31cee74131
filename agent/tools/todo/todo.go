// Package todo implements the tool with which a model keeps a list of tasks. The list is
// stored only in the transcript: a call reads it from the last result of the tool, so the
// list lives as long as that result.
package todo

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// Name is the name of the tool.
const Name = "todo"

//go:embed todo.md todo.json
var texts embed.FS

// A Status is the state of an item.
type Status string

// The statuses.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Cancelled  Status = "cancelled"
)

// An Item is one task.
type Item struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  Status `json:"status"`
}

const (
	maxItems   = 50
	maxID      = 40  // characters
	maxContent = 300 // characters
)

// New returns the tool.
func New() tool.Tool {
	return tool.New(tool.Spec{
		Tool:   tool.Definition(texts, Name),
		Effect: tool.Idempotent,
	}, run)
}

type input struct {
	Todos []Item `json:"todos"`
	Merge bool   `json:"merge"`
}

func run(_ context.Context, c tool.Call, in input) (string, error) {
	items, err := listBefore(c)
	if err != nil && (in.Merge || in.Todos == nil) {
		return "", err
	}
	if items, err = apply(items, in); err != nil {
		return "", err
	}
	return render(items), nil
}

// apply returns the list after a call. It does not change items.
func apply(items []Item, in input) ([]Item, error) {
	if in.Todos == nil {
		return items, nil
	}
	var out []Item
	if in.Merge {
		out = slices.Clone(items)
	}
	seen := map[string]bool{}
	for n, it := range in.Todos {
		it.ID, it.Content = oneLine(it.ID), oneLine(it.Content)
		at := slices.IndexFunc(out, func(o Item) bool { return o.ID == it.ID })
		if err := check(it, n, seen[it.ID], at >= 0); err != nil {
			return nil, err
		}
		seen[it.ID] = true
		if at < 0 {
			it.Status = cmp.Or(it.Status, Pending)
			out = append(out, it)
			continue
		}
		if it.Content != "" {
			out[at].Content = it.Content
		}
		if it.Status != "" {
			out[at].Status = it.Status
		}
	}
	if len(out) > maxItems {
		return nil, fmt.Errorf("the list would have %d items; the most is %d", len(out), maxItems)
	}
	return out, nil
}

func check(it Item, n int, twice, known bool) error {
	switch {
	case it.ID == "" || strings.Contains(it.ID, " "):
		return fmt.Errorf("item %d needs an id without spaces", n+1)
	case twice:
		return fmt.Errorf("two items have the id %s", it.ID)
	case len([]rune(it.ID)) > maxID:
		return fmt.Errorf("the id of item %d has more than %d characters", n+1, maxID)
	case it.Content == "" && !known:
		return fmt.Errorf("item %s is new and needs a content", it.ID)
	case len([]rune(it.Content)) > maxContent:
		return fmt.Errorf("the content of item %s has more than %d characters", it.ID, maxContent)
	}
	if _, ok := statusMarks[it.Status]; !ok && it.Status != "" {
		return fmt.Errorf("item %s has the status %q; use pending, in_progress, completed or cancelled", it.ID, it.Status)
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var statusMarks = map[Status]string{Pending: " ", InProgress: ">", Completed: "x", Cancelled: "~"}

const (
	heading   = "Todo list: "
	separator = " | "
)

// render formats a list in the form that Parse reads.
func render(items []Item) string {
	var b strings.Builder
	count := map[Status]int{}
	for _, it := range items {
		count[it.Status]++
	}
	fmt.Fprintf(&b, "%s%d items, %d completed, %d in progress, %d pending, %d cancelled", heading,
		len(items), count[Completed], count[InProgress], count[Pending], count[Cancelled])
	for _, it := range items {
		fmt.Fprintf(&b, "\n[%s] %s%s%s", statusMarks[it.Status], it.ID, separator, it.Content)
	}
	return b.String()
}

// Parse parses the list in a result of the tool. It fails if the text is not a complete
// result.
func Parse(result string) ([]Item, error) {
	lines := strings.Split(result, "\n")
	head, ok := strings.CutPrefix(lines[0], heading)
	var want int
	if _, err := fmt.Sscanf(head, "%d items", &want); !ok || err != nil {
		return nil, fmt.Errorf("todo: not a todo list")
	}
	var items []Item
	for _, l := range lines[1:] {
		it, ok := parseItem(l)
		if !ok {
			return nil, fmt.Errorf("todo: line %q is not an item", l)
		}
		items = append(items, it)
	}
	if len(items) != want {
		return nil, fmt.Errorf("todo: %d items instead of %d", len(items), want)
	}
	return items, nil
}

func parseItem(line string) (Item, bool) {
	if len(line) < 4 || line[0] != '[' || line[2:4] != "] " {
		return Item{}, false
	}
	id, content, ok := strings.Cut(line[4:], separator)
	for status, mark := range statusMarks {
		if ok && mark == line[1:2] {
			return Item{id, content, status}, true
		}
	}
	return Item{}, false
}

// Last returns the list after the last call of the tool in the transcript, nil if there was
// none. It fails if that result is incomplete.
func Last(t *llm.Transcript) ([]Item, error) {
	if t == nil {
		return nil, nil
	}
	for i := t.Len() - 2; i >= 0; i-- {
		for _, c := range slices.Backward(t.At(i).ToolUses()) {
			if c.Name != Name {
				continue
			}
			for _, r := range t.At(i + 1).Blocks {
				if r.Type != llm.ToolResult || r.ID != c.ID || r.Failed {
					continue
				}
				items, err := Parse(r.Text)
				if err != nil {
					return nil, fmt.Errorf("the last list is not whole any more; write all of it again with merge false")
				}
				return items, nil
			}
		}
	}
	return nil, nil
}

// listBefore returns the list at the beginning of c: that of the transcript, changed by the
// calls that precede c in the same answer.
func listBefore(c tool.Call) ([]Item, error) {
	items, err := Last(c.Transcript)
	if c.Transcript == nil || c.Transcript.Len() == 0 {
		return items, err
	}
	for _, b := range c.Transcript.At(c.Transcript.Len() - 1).ToolUses() {
		if b.ID == c.ID {
			break
		}
		var in input
		if b.Name != Name || json.Unmarshal(b.Input, &in) != nil {
			continue
		}
		if err != nil && (in.Merge || in.Todos == nil) {
			continue // that call failed for the same reason
		}
		if next, bad := apply(items, in); bad == nil {
			items, err = next, nil
		}
	}
	return items, err
}
