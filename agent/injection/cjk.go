package injection

import (
	"regexp"
	"strings"

	"hermesd/internal/lazyregexp"
)

// matchCJK finds orders to ignore earlier instructions in languages written without spaces,
// where text cannot be split into words.
func (s *scan) matchCJK() {
	const around = 160 // bytes; longer than any match
	for _, p := range cjkOrders {
		for at := 0; ; {
			i := strings.Index(s.text[at:], p.stem)
			if i < 0 {
				break
			}
			at += i
			near := s.text[max(0, at-around):min(len(s.text), at+2*around)]
			if m := p.re().FindString(near); m != "" {
				s.addFinding(PromptInjection, m)
				return
			}
			at = min(len(s.text), at+around)
		}
	}
}

type cjkOrder struct {
	stem string // part of every match; searched first
	re   func() *regexp.Regexp
}

var cjkOrders = func() (out []cjkOrder) {
	const before = `(?:之前|以前|以上|上述|上面|先前|前面|此前)`
	const orders = `(?:指示|指令|说明|說明|命令|提示|要求)`
	for _, stem := range []string{"忽略", "无视", "無視", "忘记", "忘記", "忽視", "忽视"} {
		out = append(out, cjkOrder{stem, lazyregexp.New(stem + `[^。!?\n]{0,6}` + before + `[^。!?\n]{0,6}` + orders)})
	}
	for _, stem := range []string{"無視", "忘れ"} {
		out = append(out, cjkOrder{stem, lazyregexp.New(`(?:以前|これまで|上記|前)の[^。!?\n]{0,6}(?:指示|命令|プロンプト)[^。!?\n]{0,6}` + stem)})
	}
	for _, stem := range []string{"무시", "잊"} {
		out = append(out, cjkOrder{stem, lazyregexp.New(`(?:이전|위의|앞의)[^.\n]{0,8}(?:지시|명령|지침)[^.\n]{0,8}` + stem)})
	}
	return out
}()
