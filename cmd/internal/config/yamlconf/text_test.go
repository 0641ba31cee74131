package yamlconf_test

import (
	"testing"

	"hermesd/cmd/internal/config/yamlconf"
)

func TestExpand(t *testing.T) {
	look := func(n string) (string, bool) {
		v, ok := map[string]string{"A": "x", "EMPTY": "", "REC": "${A}$$"}[n]
		return v, ok
	}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$": "$", "a$": "a$", "$A": "$A", "$5": "$5", "$$": "$", "$$$": "$$", "$$$$": "$$", "$${A}": "${A}",
		"${A}": "x", "-${A}-${A}-": "-x-x-", "${EMPTY}": "", "${EMPTY:-d}": "d", "${NO:-d}": "d", "${NO:-}": "", "${A:-d}": "x", "${NO:-a:-b$}": "a:-b$", "${REC}": "${A}$$", "ü${A}ü": "üxü",
	} {
		if got, err := yamlconf.Expand(in, look); err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"${NO}", "${", "${A", "${}", "${1}", "${A B}", "${A-b}", "${:-d}", "a ${A} ${NO} b"} {
		if got, err := yamlconf.Expand(in, look); err == nil {
			t.Errorf("expand(%q) = %q, want an error", in, got)
		}
	}
}
