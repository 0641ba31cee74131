package lcm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/engine/summary"
)

// A node is a summary of the messages From to To-1, or of its children.
type node struct {
	ID   int    `json:"id"`
	From int    `json:"from"`
	To   int    `json:"to"`
	Text string `json:"text"`
	Kids []int  `json:"kids,omitempty"` // IDs of the children, oldest first
}

// A tree is a list of nodes; children precede their parent. A node's ID is its
// index.
type tree struct {
	Nodes []node `json:"nodes"`
	Top   []int  `json:"top"` // IDs of the nodes without a parent, oldest first
}

// parseTree returns the stored tree, an empty one if raw is not valid.
func parseTree(raw json.RawMessage) tree {
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

// dropActive returns t without nodes of messages that are still active, from
// number start on. A discarded compaction leaves such nodes.
func (t tree) dropActive(start int) tree {
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

// add returns t with a leaf, or with a parent of n.Kids, which are the oldest
// of Top.
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

func (t tree) top() []node {
	out := make([]node, len(t.Top))
	for i, id := range t.Top {
		out[i] = t.Nodes[id]
	}
	return out
}

// hint tells the model how to read the tree.
const hint = "What is left out here can be read with lcm_grep (search), lcm_describe (the tree of summaries) and lcm_expand (the messages themselves)."

// render returns the top of the tree in the form that the context has.
func (t tree) render() string {
	var b strings.Builder
	b.WriteString(hint)
	for _, n := range t.top() {
		fmt.Fprintf(&b, "\n\n[Summary %d, messages %d to %d]\n%s", n.ID, n.From, n.To-1, n.Text)
	}
	return b.String()
}

func (t tree) span() (from, to int) {
	for i, n := range t.Nodes {
		if i == 0 || n.From < from {
			from = n.From
		}
		to = max(to, n.To)
	}
	return from, to
}

// maxChildren is the number of nodes that get a common parent.
const maxChildren = 4

// nodesToFold returns the nodes that get the next parent: adjacent ones, oldest
// first. The newest node is left out if possible.
func (t tree) nodesToFold() []node {
	top := t.top()
	return top[:min(maxChildren, max(len(top)-1, min(2, len(top))))]
}

// renderNodes returns nodes in the form that the summary model reads.
func renderNodes(ns []node) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = fmt.Sprintf("[SUMMARY of messages %d to %d]\n%s\n", n.From, n.To-1, n.Text)
	}
	return out
}

// joinNodes returns the text of a node above ns, without a model.
func joinNodes(ns []node, budget int) string {
	var b strings.Builder
	for _, n := range ns {
		b.WriteString(summary.Cut(n.Text, budget/len(ns)))
		b.WriteString("\n\n")
	}
	return strings.TrimSpace(b.String())
}
