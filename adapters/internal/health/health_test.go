package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hermesd/adapters/internal/health"
	"hermesd/gateway/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARecordTellsHowLongAStateHasLastedAndTheNewestReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, said := observer.New(zap.InfoLevel)
		r := health.New(zap.New(core))
		begin := time.Now()
		if got, want := r.State(), (chat.Health{State: chat.Connecting, Since: begin}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		<-time.After(time.Second)
		r.Set(chat.Retrying, "no way")
		<-time.After(time.Second)
		r.Set(chat.Retrying, "still none")
		r.MarkAlive()
		want := chat.Health{State: chat.Retrying, Since: begin.Add(time.Second), Error: "still none", LastContact: begin.Add(2 * time.Second)}
		if got := r.State(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		r.Set(chat.Connected, "")
		if got := r.State(); got.Error != "" || got.Since != begin.Add(2*time.Second) || said.Len() != 2 {
			t.Errorf("%+v, %d changes told", got, said.Len())
		}
	})
}
