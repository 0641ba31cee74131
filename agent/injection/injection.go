// Package injection detects prompt injections in untrusted text that is about to enter a
// prompt: context files, memory, descriptions of external tools. The main functions are
// Scan and ScanMemory; both are safe for concurrent use.
//
// It recognizes wording, not intent. A text that passes is not proven harmless, and a scan
// does not replace reading an untrusted file. It guarantees that scanning takes linear time
// for any text, and aims at letting ordinary English, documents about security and emoji
// pass; the corpora under testdata measure how well that works.
//
// The text is normalized (NFKC, homoglyphs, digits for letters, spaced letters) and split
// into words; each word belongs to classes of lexicon.txt; rules.txt defines which classes
// must follow each other, with how many filler words between. Patterns that are not made of
// words (comments, hidden elements, role tags, invisible characters) have code of their
// own.
package injection

import (
	"fmt"
	"strings"
	"sync"
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
	SSHBackdoor          = "ssh_backdoor" // ScanMemory only
)

// ids holds the IDs in the order in which findings are listed.
var ids = []string{
	PromptInjection, DeceptionHide, SysPromptOverride, DisregardRules, BypassRestrictions, HTMLCommentInjection,
	HiddenDiv, TranslateExecute, ExfilCurl, ReadSecrets, InvisibleUnicode, SSHBackdoor,
}

// A Finding is one kind of attack that a text seems to contain.
type Finding struct {
	ID string
	// Excerpt is the first match in the normalized text, at most 120 characters; for
	// invisible characters their code points.
	Excerpt string
}

// Scan returns the attacks that text seems to contain: one finding for each ID, in the
// order of ids; nil if there are none.
func Scan(text string) []Finding {
	s := newScan(text)
	defer s.release()
	s.matchInvisible(text)
	if s.tokenize() {
		s.matchRules()
		s.matchCJK()
		s.matchStructure()
	}
	return s.findings()
}

// ScanMemory is Scan for a memory entry, which is part of every prompt: it also finds
// authorized_keys, the usual target of an SSH backdoor. Other paths under ~/.ssh are
// allowed.
func ScanMemory(text string) []Finding {
	found := Scan(text)
	if at := strings.Index(strings.ToLower(text), "authorized_keys"); at >= 0 {
		found = append(found, Finding{SSHBackdoor, "authorized_keys"})
	}
	return found
}

// JoinIDs returns the IDs of findings, separated by ", ".
func JoinIDs(found []Finding) string {
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.ID
	}
	return strings.Join(names, ", ")
}

// Placeholder returns the text that replaces the file called name in a prompt because of
// findings.
func Placeholder(name string, found []Finding) string {
	return fmt.Sprintf("[BLOCKED: %s contained potential prompt injection (%s). Content not loaded.]", name, JoinIDs(found))
}

// Limits of a Cache, in texts and bytes. The last text is always kept.
const (
	maxCached      = 64
	maxCachedBytes = 1 << 20
)

// A Cache is a Scan for texts that are scanned repeatedly, such as a file that is part of
// each prompt: it keeps the findings of the last texts. Texts are compared byte by byte, so
// no other text can pass for a cached one. Its zero value is ready to use; its methods may
// be called from several goroutines.
type Cache struct {
	mu    sync.Mutex // guards what follows
	known map[string][]Finding
	order []string // oldest first
	bytes int      // of all cached texts
}

// Scan returns the same as the function Scan. The caller must not change the findings.
func (m *Cache) Scan(text string) []Finding {
	m.mu.Lock()
	found, ok := m.known[text]
	m.mu.Unlock()
	if ok {
		return found
	}
	found = Scan(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[text]; ok {
		return found
	}
	if m.known == nil {
		m.known = map[string][]Finding{}
	}
	for len(m.order) > 0 && (len(m.order) == maxCached || m.bytes+len(text) > maxCachedBytes) {
		delete(m.known, m.order[0])
		m.bytes -= len(m.order[0])
		m.order = m.order[1:]
	}
	m.known[text] = found
	m.order = append(m.order, text)
	m.bytes += len(text)
	return found
}
