package health_test

import (
	"errors"
	"net/http"
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

// answers is a platform that says what time it is, or what it says instead.
type answers func() (date string, err error)

func (f answers) RoundTrip(*http.Request) (*http.Response, error) {
	date, err := f()
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func TestAnswersTellByHowMuchOurClockIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := health.New(zap.NewNop())
		says := func(d time.Duration) answers {
			return func() (string, error) { return time.Now().Add(d).UTC().Format(http.TimeFormat), nil }
		}
		for _, tt := range []struct {
			name string
			from answers
			want time.Duration
		}{
			{"nothing yet", func() (string, error) { return "", nil }, 0},
			{"it is a day earlier there", says(-24 * time.Hour), 24 * time.Hour},
			{"an answer without a date changes nothing", func() (string, error) { return "", nil }, 24 * time.Hour},
			{"nor one with nonsense", func() (string, error) { return "yesterday", nil }, 24 * time.Hour},
			{"nor none", func() (string, error) { return "", errors.New("no network") }, 24 * time.Hour},
			{"it is an hour later there", says(time.Hour), -time.Hour},
			{"a minute is nothing", says(-time.Minute), 0},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://platform.test", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := r.Clock(tt.from).RoundTrip(req); err == nil {
				_ = resp.Body.Close() // it is empty
			}
			if got := r.State().ClockAhead; got != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	})
}
