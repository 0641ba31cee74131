package cmdpolicy

import (
	"regexp"
	"slices"
	"strings"
)

// A call is a command that the table knows.
type call struct {
	*row
	argv     []string
	options  []string
	values   []string // of options
	operands []string
	data     []string // operands that are no files
	outputs  []string // values of options that name what is written
	stdin    string
}

func (c *call) option(names ...string) bool {
	return slices.ContainsFunc(c.options, func(o string) bool {
		o, _, _ = strings.Cut(o, "=")
		return slices.Contains(names, o) || len(o) > 1 && o[1] != '-' && slices.ContainsFunc(names, func(n string) bool {
			return len(n) == 2 && strings.Contains(c.cluster(o), n[1:])
		})
	})
}

// dataOptions are options whose value takes the place of the first operand; of fileOptions it
// is a file.
var dataOptions, fileOptions = []string{"-e", "--expression", "--regexp"}, []string{"-f", "--file", "--from-file"}

// parse splits the arguments of a command. It returns false if the row does not permit them.
func (e *evaluator) parse(c *call, args []string) bool {
	if c.never != nil && slices.ContainsFunc(args, c.never.MatchString) {
		return false
	}
	first := c.first != nil
	for i := 0; i < len(args); i++ {
		a := args[i]
		unknown := strings.HasPrefix(a, hole)
		switch {
		case a == "--" && !c.has("in-place"):
			c.operands = append(c.operands, args[i+1:]...)
			i = len(args)
		case len(a) < 2 || a[0] != '-' && !unknown, unknown && len(c.allowed)+len(c.refused) == 0:
			if c.operands = append(c.operands, a); c.endsOptions(a) {
				c.operands = append(c.operands, args[i+1:]...)
				i = len(args)
			}
		default:
			if !c.permits(a) && !slices.Contains(c.code, a) {
				return false
			}
			c.options = append(c.options, a)
			name, value, n := c.valueOf(args[i:])
			i += n
			switch {
			case name == "" && strings.Contains(a, "/"):
				c.values = append(c.values, pathsIn(a)...)
			case name == "":
			case slices.Contains(c.query, name):
				if !e.table.patterns["query"].MatchString(value) {
					return false
				}
				c.data = append(c.data, value)
			case slices.Contains(c.text, name):
				c.data = append(c.data, value)
			case slices.Contains(e.table.sets["outputs"], name):
				c.outputs = append(c.outputs, value)
			case c.first != nil && slices.Contains(dataOptions, name):
				if !c.first.MatchString(value) {
					return false
				}
				first, c.data = false, append(c.data, value)
			default:
				first = first && !slices.Contains(fileOptions, name)
				c.values = append(c.values, value)
			}
		}
	}
	return c.checkOperands(first)
}

// endsOptions reports whether what follows an operand are no options of the command.
func (c *call) endsOptions(operand string) bool {
	switch c.kind {
	case "script", "shell":
		return true
	case "wrap":
		return len(c.operands) > c.skip && !isAssignment(operand)
	}
	return false
}

// valueOf returns the option that begins args and its value, and how many words the value is.
// The name is "" if the option has no value.
func (c *call) valueOf(args []string) (name, value string, n int) {
	a := args[0]
	if name, value, ok := strings.Cut(a, "="); ok {
		return name, value, 0
	}
	cluster := c.cluster(a)
	last := "-" + cluster[max(len(cluster)-1, 0):]
	switch {
	case slices.Contains(c.row.values, a):
		last = a
	case a[1] == '-' || !slices.Contains(c.row.values, last):
		return "", "", 0
	case len(cluster) < len(a)-1:
		return last, a[1+len(cluster):], 0
	}
	if len(args) == 1 {
		return "", "", 0
	}
	return last, args[1], 1
}

// checkOperands reports whether the operands match the patterns of the row, and separates
// those that are no files.
func (c *call) checkOperands(first bool) bool {
	if first && len(c.operands) > 0 {
		if !c.first.MatchString(c.operands[0]) {
			return false
		}
		c.data, c.operands = append(c.data, c.operands[0]), c.operands[1:]
	}
	if c.then != nil && len(c.operands) > 1 {
		if slices.ContainsFunc(c.operands[1:], func(o string) bool { return !c.then.MatchString(o) }) {
			return false
		}
		c.data, c.operands = append(c.data, c.operands[1:]...), c.operands[:1]
	}
	return c.args == nil || !slices.ContainsFunc(c.operands, func(o string) bool { return !c.args.MatchString(o) })
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

func isAssignment(word string) bool { return assignment.MatchString(word) }
