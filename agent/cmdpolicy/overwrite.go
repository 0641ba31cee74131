package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A flow lists the files that are emptied before the commands of a pipeline run, and those that
// grow meanwhile. What they read is in evaluator.read, with numbers above before.
type flow struct {
	before           int
	empties, appends []string
}

// empty examines that a file is emptied.
func (e *evaluator) empty(p string) {
	if under(p, e.place.workspace) && !e.disposable(e.place.shown(p)) && !e.table.in("blank", path.Base(p)) {
		e.find("overwrite", e.place.shown(p), "")
	}
}

// overwritten examines that a pipeline does not write into a file that it reads.
func (e *evaluator) overwritten() {
	for _, p := range e.flow.empties {
		if e.isRead(p) {
			e.find("overwrite", e.place.shown(p), "")
		}
	}
	for _, p := range e.flow.appends {
		if e.isRead(p) {
			e.find("flood", e.place.shown(p), "")
		}
	}
}

// isRead reports whether the pipeline reads a file.
func (e *evaluator) isRead(p string) bool {
	return e.read[p] > e.flow.before && !strings.Contains(p, hole) && !e.table.in("sinks", p)
}

// replaces examines that mv or cp does not put files over each other, or, with -f, over
// another one. What the command line has made is put over the file that it was made of.
func (e *evaluator) replaces(c *call) {
	from, to := e.resolve(c.operands[0]), e.resolve(c.operands[len(c.operands)-1])
	at := e.place.shown(to)
	all := strings.HasSuffix(c.operands[0], "/.") || strings.HasSuffix(c.operands[0], "/*")
	switch {
	case all && (to == e.place.workspace && c.program() == "cp" || c.option("-f", "--force") && under(to, e.place.workspace) && !e.disposable(at)):
		e.find("overwrite", at, withTarget(c.shape(), at))
	case path.Ext(to) == "", strings.Contains(to, "*"), !under(to, e.place.workspace), e.disposable(at):
	case slices.Contains(e.targets, to) && c.program() == "mv", strings.Contains(from, "*"), (c.option("-f", "--force") || c.program() == "mv" && e.disposable(e.place.shown(from))) && e.written[from] == "":
		e.find("overwrite", at, withTarget(c.shape(), at))
	}
	if c.program() == "mv" {
		e.targets = append(e.targets, to)
	}
}

// outputs notes the files that options of a command name as output. sort reads all before it
// writes.
func (e *evaluator) outputs(c *call) {
	for _, o := range c.outputs {
		if c.program() != "sort" {
			e.flow.empties = append(e.flow.empties, e.resolve(o))
		}
	}
}

// tees notes the files that tee empties.
func (e *evaluator) tees(c *call, files []string) {
	if c.program() != "tee" || c.option("-a", "--append") {
		return
	}
	for _, f := range files {
		p := e.resolve(f)
		if e.flow.empties = append(e.flow.empties, p); e.piped == "" {
			e.empty(p)
		}
	}
}

// Options of perl and ruby: a program follows; it changes files (-M and -I are followed by names).
var (
	program = regexp.MustCompile(`^-\w*[eE]$`)
	inPlace = regexp.MustCompile(`^-[0-9A-HJ-LN-Za-z]*i`)
)

// oneLiner examines a program in an argument that changes files.
func (e *evaluator) oneLiner(c *call) {
	i := slices.IndexFunc(c.args, program.MatchString)
	if i >= 0 && i+1 < len(c.args) && slices.ContainsFunc(c.args[:i+1], inPlace.MatchString) && e.table.patterns["empties-code"].MatchString(c.args[i+1]) {
		e.find("overwrite", c.program(), "")
	}
}
