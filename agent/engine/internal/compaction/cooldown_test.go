package compaction_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Every synctest bubble begins at the same instant, so for an engine in a
// second bubble the clock was set back.
func TestARestIsNotLongerByAClockThatIsSetBack(t *testing.T) {
	var kept json.RawMessage
	synctest.Test(t, func(t *testing.T) {
		<-time.After(10 * time.Hour)
		e := newEngine(fixedSummarizer{err: errors.New("no network")}, nil)
		if _, err := e.Compress(t.Context(), view(40)); err == nil || e.Status().Cooldown == "" {
			t.Errorf("%v, %+v", err, e.Status())
		}
		kept = e.State()
	})
	synctest.Test(t, func(t *testing.T) {
		if why := newEngine(fixedSummarizer{}, kept).Status().Cooldown; why != "" {
			t.Errorf("it rests %s", why)
		}
	})
}
