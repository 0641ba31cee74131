package lcm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/engine/summary"
	"hermesd/agent/llm/tokens"
)

// A node is a summary of the messages From to To-1, or of the nodes below it.
type node struct {
	ID   int    `json:"id"`
	From int    `json:"from"`
	To   int    `json:"to"`
	Text string `json:"text"`
	Kids []int  `json:"kids,omitempty"` // ids, oldest first
}

// A tree is a list of nodes; those below others come before them. A node's ID is
// its place.
type tree struct {
	Nodes []node `json:"nodes"`
	Top   []int  `json:"top"` // ids of the nodes that nothing stands above, oldest first
}

// read returns the tree that was kept; none if it is not one.
func read(raw json.RawMessage) tree {
	var t tree
	if json.Unmarshal(raw, &t) != nil {
		return tree{}
	}
	for i, n := range t.Nodes {
		if n.ID != i || n.From < 0 || n.To < n.From {
			return tree{}
		}
		for _, k := range n.Kids {
			if k < 0 || k >= i {
				return tree{}
			}
		}
	}
	for _, id := range t.Top {
		if id < 0 || id >= len(t.Nodes) {
			return tree{}
		}
	}
	return t
}

// before returns t without what is not archived: a pass that was discarded has
// left nodes of messages that are active still, from number start on.
func (t tree) before(start int) tree {
	n := len(t.Nodes)
	for n > 0 && t.Nodes[n-1].To > start {
		n--
	}
	if n == len(t.Nodes) {
		return t
	}
	out := tree{Nodes: t.Nodes[:n:n]}
	below := map[int]bool{}
	for _, n := range out.Nodes {
		for _, k := range n.Kids {
			below[k] = true
		}
	}
	for _, n := range out.Nodes {
		if !below[n.ID] {
			out.Top = append(out.Top, n.ID)
		}
	}
	return out
}

// add returns t with a leaf, or a node above kids, which are the oldest of Top.
func (t tree) add(n node) tree {
	n.ID = len(t.Nodes)
	out := tree{Nodes: append(t.Nodes[:len(t.Nodes):len(t.Nodes)], n)}
	if len(n.Kids) == 0 {
		out.Top = append(t.Top[:len(t.Top):len(t.Top)], n.ID)
		return out
	}
	for _, id := range t.Top {
		switch {
		case id == n.Kids[0]:
			out.Top = append(out.Top, n.ID)
		case !slices.Contains(n.Kids, id):
			out.Top = append(out.Top, id)
		}
	}
	return out
}

// top are the nodes that nothing stands above.
func (t tree) top() []node {
	out := make([]node, len(t.Top))
	for i, id := range t.Top {
		out[i] = t.Nodes[id]
	}
	return out
}

// hint says how the tree is used.
const hint = "What is left out here can be read with lcm_grep (search), lcm_describe (the tree of summaries) and lcm_expand (the messages themselves)."

// render is the top of the tree as the context holds it.
func (t tree) render() string {
	var b strings.Builder
	b.WriteString(hint)
	for _, n := range t.top() {
		fmt.Fprintf(&b, "\n\n[Summary %d, messages %d to %d]\n%s", n.ID, n.From, n.To-1, n.Text)
	}
	return b.String()
}

func (t tree) size() int { return tokens.Text(t.render()) }

// span is what the whole tree stands for.
func (t tree) span() (from, to int) {
	for i, n := range t.Nodes {
		if i == 0 || n.From < from {
			from = n.From
		}
		to = max(to, n.To)
	}
	return from, to
}

// fold is how many nodes get one above them.
const fold = 4

// oldest are the nodes that get one above them next: neighbours, the oldest
// first. The newest stays on its own where it can.
func (t tree) oldest() []node {
	top := t.top()
	return top[:min(fold, max(len(top)-1, min(2, len(top))))]
}

// parts are nodes as the summary model reads them.
func parts(ns []node) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = fmt.Sprintf("[SUMMARY of messages %d to %d]\n%s\n", n.From, n.To-1, n.Text)
	}
	return out
}

// joined is a node above ns that no model wrote.
func joined(ns []node, budget int) string {
	var b strings.Builder
	for _, n := range ns {
		b.WriteString(summary.Cut(n.Text, budget/len(ns)))
		b.WriteString("\n\n")
	}
	return strings.TrimSpace(b.String())
}
