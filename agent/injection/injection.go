// Package injection looks for prompt injection in text that other people wrote and
// that is about to enter a prompt: project files, memory, descriptions of
// foreign tools.
//
// It recognises wording, not intent. A text that passes is not proven harmless,
// and nothing here replaces reading a foreign file. What it does promise is that
// scanning takes linear time, whatever the text is, and that ordinary English,
// documents about security and emoji pass; the corpora under testdata measure
// how far that is true.
//
// How it works: the text is normalised (NFKC, homoglyphs, digits for letters,
// spaced letters) and cut into words; each word belongs to classes of
// lexicon.txt; rules.txt says which classes must follow each other, with how
// many filler words between. A few shapes that are not made of words (comments,
// hidden elements, role tags, invisible characters) have code of their own.
package injection

import (
	"fmt"
	"slices"
	"strings"
)

// The ids of findings.
const (
	PromptInjection      = "prompt_injection"
	DeceptionHide        = "deception_hide"
	SysPromptOverride    = "sys_prompt_override"
	DisregardRules       = "disregard_rules"
	BypassRestrictions   = "bypass_restrictions"
	HTMLCommentInjection = "html_comment_injection"
	HiddenDiv            = "hidden_div"
	TranslateExecute     = "translate_execute"
	ExfilCurl            = "exfil_curl"
	ReadSecrets          = "read_secrets"
	InvisibleUnicode     = "invisible_unicode"
	SSHBackdoor          = "ssh_backdoor" // of ScanMemory only
)

// ids holds the ids in the order in which findings are listed.
var ids = []string{
	PromptInjection, DeceptionHide, SysPromptOverride, DisregardRules, BypassRestrictions, HTMLCommentInjection,
	HiddenDiv, TranslateExecute, ExfilCurl, ReadSecrets, InvisibleUnicode, SSHBackdoor,
}

// IDs returns all ids, in the order in which findings are listed.
func IDs() []string { return slices.Clone(ids) }

// A Finding is one kind of attack that a text seems to hold.
type Finding struct {
	ID string
	// Excerpt is the first place, as normalised for the scan, at most 120
	// characters; for invisible characters their code points.
	Excerpt string
}

// Scan returns what in text looks like an attack: one finding for each id, in
// the order of IDs; nil if there is nothing. It may be called from several
// goroutines.
func Scan(text string) []Finding {
	s := newScan(text)
	defer s.done()
	s.invisible(text)
	if s.words() {
		s.match()
		s.eastern()
		s.structure()
	}
	return s.findings()
}

// ScanMemory is Scan for an entry of memory, which stands in every prompt: it
// also finds authorized_keys, by which an SSH backdoor is laid. A plain mention
// of a path under ~/.ssh is fine.
func ScanMemory(text string) []Finding {
	found := Scan(text)
	if at := strings.Index(strings.ToLower(text), "authorized_keys"); at >= 0 {
		found = append(found, Finding{SSHBackdoor, "authorized_keys"})
	}
	return found
}

// JoinIDs returns the ids of findings, with ", " between them.
func JoinIDs(found []Finding) string {
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.ID
	}
	return strings.Join(names, ", ")
}

// Placeholder returns what stands in a prompt in the place of the file called name
// in which these were found.
func Placeholder(name string, found []Finding) string {
	return fmt.Sprintf("[BLOCKED: %s contained potential prompt injection (%s). Content not loaded.]", name, JoinIDs(found))
}
