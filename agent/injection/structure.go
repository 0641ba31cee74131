package injection

import (
	"sort"
	"strings"
	"unicode/utf8"

	"hermesd/internal/lazyregexp"
)

// matchStructure finds patterns that are not made of words only.
func (s *scan) matchStructure() {
	t := s.text
	for at := 0; ; {
		i := strings.IndexAny(t[at:], "<[")
		if i < 0 {
			break
		}
		at += i
		switch rest := t[at:]; {
		case s.isInCode(at):
		case strings.HasPrefix(rest, "<!--"):
			end := strings.Index(rest, "-->")
			if end < 0 {
				end = len(rest)
			}
			if end >= 4 { // "<!-->" is an empty comment
				s.matchComment(at+4, at+end)
			}
			at += max(end, 4)
			continue
		case strings.HasPrefix(rest, "[//]: #"), strings.HasPrefix(rest, "[comment]: #"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			s.matchComment(at, at+end)
		case mayBeRole(rest) && !s.isAttached(at) && roleTag().MatchString(rest[:min(len(rest), 40)]):
			s.addFinding(SysPromptOverride, rest[:min(len(rest), 40)])
		case rest[0] == '<':
			s.matchHidden(rest)
		}
		at++
	}
	s.matchCommands()
}

var roleTag = lazyregexp.New(`^(?:<\s*/?\s*(?:system|system_prompt|system-prompt|sys)\s*>|<\|(?:im_start\|>\s*system|system\|>)|\[/?inst\]|<<\s*/?sys\s*>>|\[system\]\s*:?\s*\S)`)

// isAttached reports whether a bracket at an offset belongs to the word before it: an
// index, or a letter with which POD marks up the following text.
func (s *scan) isAttached(at int) bool {
	if at == 0 || !wordByte(s.text[at-1]) || s.text[at-1] >= utf8.RuneSelf {
		return false
	}
	return s.text[at] == '[' || !strings.HasPrefix(s.text[at:], "<|") && (at == 1 || !wordByte(s.text[at-2]))
}

// mayBeRole is a fast check before roleTag.
func mayBeRole(rest string) bool {
	name := strings.TrimLeft(rest[:min(len(rest), 8)], "<[/| ")
	return strings.HasPrefix(name, "sys") || strings.HasPrefix(name, "im_") || strings.HasPrefix(name, "inst")
}

// isInCode reports whether offset at is inside a code span or block, where a reader sees
// it.
func (s *scan) isInCode(at int) bool {
	i := s.wordAt(at)
	if i == len(s.list) {
		return false
	}
	w := s.list[i]
	return w.fence || w.quote != 0 && strings.ContainsAny(s.text[max(0, at-80):at], "`") && strings.IndexByte(s.text[at:w.offset], '\n') < 0
}

// wordAt returns the first word that begins at offset at or later.
func (s *scan) wordAt(at int) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i].offset >= at })
}

// hasMatch reports whether a rule matched between the offsets.
func (s *scan) hasMatch(from, to int) bool {
	i := sort.Search(len(s.matched), func(i int) bool { return s.matched[i].to > from })
	for ; i < len(s.matched) && s.matched[i].to <= to; i++ {
		if s.matched[i].from >= from {
			return true
		}
	}
	return false
}

// matchComment examines the text of a comment, which a reader of the rendered page does not
// see.
func (s *scan) matchComment(from, to int) {
	if s.hasMatch(from, to) {
		s.addFinding(HTMLCommentInjection, s.text[from:to])
		return
	}
	var agent, act, drop, setting, hidden, order bool
	dropAt, agentAt := -100, -100
	class := func(w *word, name string) bool {
		var c set
		c.add(s.lex.numbers[name])
		return w.classes.intersects(&c)
	}
	for i := s.wordAt(from); i < len(s.list) && s.list[i].offset < to; i++ {
		w := &s.list[i]
		if class(w, "AGENT") {
			agent, agentAt = true, i
		}
		act = act || i-agentAt < 16 && class(w, "ACT")
		if class(w, "STRONG") || w.text == "override" || w.text == "bypass" {
			drop, dropAt = true, i
		}
		setting = setting || drop && i > dropAt && i-dropAt <= 3 && class(w, "SETTING")
		if i > 0 && s.list[i-1].offset >= from {
			before := s.list[i-1].text
			hidden = hidden || (before == "hidden" || before == "secret" || before == "system") && (w.text == "prompt" || w.text == "instruction" || w.text == "instructions" || w.text == "command")
			order = order || before == "you" && (w.text == "must" || w.text == "will" || w.text == "shall") || w.text == "system" && strings.HasPrefix(s.text[w.offset+6:], ":")
		}
	}
	body := strings.TrimSpace(s.text[from:to])
	order = order || strings.HasPrefix(body, "system:")
	if agent && act || setting || hidden || order && !strings.Contains(body, "please") {
		s.addFinding(HTMLCommentInjection, body)
	}
}

var (
	element = lazyregexp.New(`^<(div|span|p|section|td|tr|li|ul|font|b|i|a|em|strong|small|details|article|aside|footer|header|h[1-6]|pre|label|table)\b`)
	style   = lazyregexp.New(`style\s*=\s*["']?[^>]*?(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*[01](?:px|pt|em|rem|%)?\s*(?:[;"'>]|$)|opacity\s*:\s*0(?:\.0+)?\s*(?:[;"'>]|$)|(?:left|top|text-indent)\s*:\s*-\d{3,})`)
	hiddenA = lazyregexp.New(`\shidden(?:\s|>|=\s*["'](?:hidden|true)?["']|$)`)
)

// matchHidden reports an element that hides its text.
func (s *scan) matchHidden(rest string) {
	if !element().MatchString(rest[:min(len(rest), 12)]) {
		return
	}
	end := strings.IndexAny(rest[1:min(len(rest), 1000)], "<>") + 1
	if end == 0 || rest[end] == '<' {
		return
	}
	tag := rest[:end+1]
	if !style().MatchString(tag) && !hiddenA().MatchString(tag) {
		return
	}
	inner := rest[end+1 : min(len(rest), end+400)]
	if strings.HasPrefix(strings.TrimSpace(inner), "</") {
		return // the element is empty
	}
	s.addFinding(HiddenDiv, rest[:min(len(rest), end+80)])
}
