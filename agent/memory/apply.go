package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/agent/injection"
)

// An Op is one change to a store.
type Op struct {
	Action  string `json:"action"` // add, replace or remove
	Content string `json:"content,omitempty"`
	OldText string `json:"old_text,omitempty"` // a part that only the target entry has
}

// A Reason is the reason why a change was refused.
type Reason string

// The reasons.
const (
	Done      Reason = ""           // not refused
	OverLimit Reason = "over_limit" // the limit would be exceeded
	NoMatch   Reason = "no_match"   // no entry, or several, have the old text
	Invalid   Reason = "invalid"    // the arguments are invalid
	Injection Reason = "attack"     // the text looks like an attack
	Drift     Reason = "drift"      // the file was edited by hand and writing it would lose text
	Failed    Reason = "failed"     // an error of the disk or the lock
)

// A Result is the result of a change, in the form that a model reads.
type Result struct {
	Success bool   `json:"success"`
	Done    bool   `json:"done,omitempty"` // the model must not retry
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
	Target  Target `json:"target,omitempty"`
	// Matches are the beginnings of the entries that have the old text.
	Matches []string `json:"matches,omitempty"`
	// CurrentEntries are all entries, after a failure.
	CurrentEntries []string `json:"current_entries,omitzero"`
	// Entries are all entries after a change.
	Entries     []string `json:"entries,omitzero"`
	Usage       string   `json:"usage,omitempty"`
	EntryCount  *int     `json:"entry_count,omitempty"`
	DriftBackup string   `json:"drift_backup,omitempty"`
	Remediation string   `json:"remediation,omitempty"`

	Reason  Reason `json:"-"`
	Changed bool   `json:"-"` // the file was written
}

// Add appends an entry. An entry that already exists is not added again, and
// the result is a success.
func (s *Store) Add(ctx context.Context, t Target, content string) Result {
	return s.apply(ctx, t, []Op{{Action: "add", Content: content}}, false)
}

// Replace replaces the one entry that has oldText.
func (s *Store) Replace(ctx context.Context, t Target, oldText, content string) Result {
	return s.apply(ctx, t, []Op{{Action: "replace", Content: content, OldText: oldText}}, false)
}

// Remove removes the one entry that has oldText.
func (s *Store) Remove(ctx context.Context, t Target, oldText string) Result {
	return s.apply(ctx, t, []Op{{Action: "remove", OldText: oldText}}, false)
}

// Batch makes all changes, in order, or none. Only the size after the last one
// is checked.
func (s *Store) Batch(ctx context.Context, t Target, ops []Op) Result {
	if len(ops) == 0 {
		return refuse(Invalid, "No operations were given.")
	}
	return s.apply(ctx, t, ops, true)
}

func refuse(why Reason, format string, args ...any) Result {
	return Result{Error: fmt.Sprintf(format, args...), Reason: why}
}

func (s *Store) apply(ctx context.Context, t Target, ops []Op, batch bool) Result {
	ops = slices.Clone(ops)
	for i := range ops {
		if r := checkOp(&ops[i]); r.Reason != Done {
			return s.completeRefusal(t, r, i, batch)
		}
	}
	unlock, err := s.lock(ctx, t)
	if err != nil {
		return refuse(Failed, "Memory was not changed: %v.", err)
	}
	defer unlock()
	f, err := s.read(t)
	if err != nil {
		return refuse(Failed, "Memory was not changed: %v.", err)
	}
	if why := f.lossReason(s.Limit(t), batch || ops[0].Action != "add"); why != "" {
		return s.refuseDrift(t, f, why)
	}
	entries := slices.Clone(f.entries)
	message := ""
	for i, op := range ops {
		var r Result
		if entries, r = applyOp(entries, op); r.Reason != Done {
			r.CurrentEntries = nonNil(f.entries)
			return s.completeRefusal(t, r, i, batch)
		}
		message = r.Message
	}
	if n := charCount(entries); n > s.Limit(t) && n > charCount(f.entries) {
		return s.refuseOverLimit(t, f.entries, ops[len(ops)-1], batch, n)
	}
	if batch {
		message = fmt.Sprintf("Applied %d operations.", len(ops))
	}
	changed := !slices.Equal(entries, f.entries)
	if changed {
		if err := replaceFile(s.Path(t), []byte(strings.Join(entries, delimiter))); err != nil {
			return refuse(Failed, "Memory was not changed: the file could not be written: %v. Make room or correct the rights of %s, then try again.", err, s.c.Dir)
		}
	}
	n := len(entries)
	return Result{Success: true, Target: t, Message: message, Entries: nonNil(entries), Usage: s.Usage(t, entries), EntryCount: &n, Changed: changed}
}

// nonNil returns a copy of entries that is never nil, so that JSON has a list.
func nonNil(entries []string) []string { return append([]string{}, entries...) }

func (s *Store) completeRefusal(t Target, r Result, i int, batch bool) Result {
	if batch {
		r.Error = fmt.Sprintf("Operation %d: %s No operations were applied.", i+1, r.Error)
	}
	if r.Reason == Invalid && r.CurrentEntries == nil {
		if entries, err := s.Entries(t); err == nil {
			r.CurrentEntries = nonNil(entries)
		}
	}
	return r
}

// checkOp normalizes an operation and validates it without the file.
func checkOp(op *Op) Result {
	op.Content = normalize(strings.ToValidUTF8(op.Content, "\uFFFD"))
	op.OldText = normalize(op.OldText)
	switch op.Action {
	case "add":
		if op.Content == "" {
			return refuse(Invalid, "Content cannot be empty: add needs the text of the entry.")
		}
	case "replace":
		if op.Content == "" {
			return refuse(Invalid, "Content cannot be empty. To delete an entry use remove.")
		}
	case "remove":
		op.Content = ""
	default:
		return refuse(Invalid, "Unknown action %q. Use add, replace or remove.", op.Action)
	}
	if op.Action != "add" && op.OldText == "" {
		return refuse(Invalid, "The action %s needs old_text: a part of the entry that no other entry holds.", op.Action)
	}
	if p := parse(op.Content); op.Content != "" && (len(p) != 1 || p[0] != op.Content) {
		return refuse(Invalid, "An entry cannot hold a line with only §, which separates entries. Add them one by one.")
	}
	if found := injection.ScanMemory(op.Content); len(found) > 0 {
		return refuse(Injection, "Blocked: content matches threat pattern '%s' (%q). Memory stands in every prompt; say it in other words, or leave it out.",
			injection.JoinIDs(found), found[0].Excerpt)
	}
	return Result{}
}

// normalize returns s in the form in which the file stores it.
func normalize(s string) string {
	for {
		next := strings.TrimSpace(strings.ReplaceAll(strings.TrimPrefix(s, "\uFEFF"), "\r\n", "\n"))
		if next == s {
			return s
		}
		s = next
	}
}

// applyOp returns entries after op. It does not modify entries if it fails.
func applyOp(entries []string, op Op) ([]string, Result) {
	if op.Action == "add" {
		if slices.Contains(entries, op.Content) {
			return entries, Result{Message: "Entry already exists (no duplicate added)."}
		}
		return append(entries, op.Content), Result{Message: "Entry added."}
	}
	at := -1
	var matches []string
	for i, e := range entries {
		if !strings.Contains(e, op.OldText) || slices.Contains(matches, e) {
			continue
		}
		if at < 0 {
			at = i
		}
		matches = append(matches, e)
	}
	switch {
	case at < 0:
		return entries, refuse(NoMatch, "No entry matched '%s'.", preview(op.OldText))
	case len(matches) > 1:
		for i := range matches {
			matches[i] = preview(matches[i])
		}
		r := refuse(NoMatch, "Multiple entries matched '%s'. Be more specific.", preview(op.OldText))
		r.Matches = matches
		return entries, r
	case op.Action == "remove":
		return slices.Delete(slices.Clone(entries), at, at+1), Result{Message: "Entry removed."}
	}
	out := slices.Clone(entries)
	out[at] = op.Content
	return out, Result{Message: "Entry replaced."}
}

// preview returns the beginning of a text, on one line.
func preview(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > 80 {
		s = string([]rune(s)[:80]) + "..."
	}
	return s
}

func (s *Store) refuseOverLimit(t Target, before []string, op Op, batch bool, after int) Result {
	usage := formatThousands(charCount(before)) + "/" + formatThousands(s.Limit(t))
	what := fmt.Sprintf("Adding this entry (%s chars)", formatThousands(utf8.RuneCountInString(op.Content)))
	switch {
	case batch:
		what = fmt.Sprintf("Applying these operations (%s chars in the end)", formatThousands(after))
	case op.Action == "replace":
		what = fmt.Sprintf("Replacing with this entry (%s chars)", formatThousands(utf8.RuneCountInString(op.Content)))
	}
	r := refuse(OverLimit, "Memory at %s chars. %s would exceed the limit. Replace or remove existing entries first.", usage, what)
	r.CurrentEntries, r.Usage = nonNil(before), usage
	return r
}

// refuseDrift copies a file whose text would be lost, and refuses the write.
func (s *Store) refuseDrift(t Target, f file, why string) Result {
	r := refuse(Drift, "%s was edited by hand so that writing it would lose text: %s. Nothing was changed.", t.File(), why)
	to, err := copyToBackup(s.Path(t), f.raw, time.Now())
	if err != nil {
		r.Error += fmt.Sprintf(" A copy could not be made either: %v.", err)
	} else {
		r.DriftBackup = to
	}
	r.Remediation = "Ask the user to correct the file: entries of valid UTF-8 with a line holding only § between them, within the limit. Then try again."
	return r
}
