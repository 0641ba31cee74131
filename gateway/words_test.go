package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway"
	"hermesd/gateway/words"
)

func TestCommandsSpeakTheLanguageOfThePeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.set = func(o *gateway.Options) {
			o.Access = owned(t)
			var err error
			if o.Words, err = words.In("de"); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		defer w.stop()
		for _, tt := range []struct{ say, want string }{
			{"/help", "die Befehle aufzählen"},
			{"/hlep", "Meinst du `/help`?"},
			{"/stop", "Gerade läuft nichts."},
			{"/new", "Ein neues Gespräch beginnt."},
		} {
			w.say("7", tt.say)
			w.settle(time.Second)
			seen := w.room.visible("7")
			if got := seen[len(seen)-1]; !strings.Contains(got, strings.ReplaceAll(tt.want, "`", "")) && !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.say, got, tt.want)
			}
		}
		for _, c := range w.gw.Commands().All() {
			if c.Name == "help" && c.Help != "die Befehle aufzählen" {
				t.Errorf("the menu says %q", c.Help)
			}
		}
	})
}
