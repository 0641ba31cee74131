package bench_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/memory/openviking"
)

var (
	pairs = flag.Int("pairs", 4, "pairs of runs of BenchmarkProvider")
	idle  = flag.Duration("idle", time.Minute, "how long BenchmarkProviderIdle watches")
)

// withProvider adds an external memory to o: OpenViking over loopback, with the words of
// everybody who may write.
func withProvider(b *testing.B, o daemontest.Options) (daemontest.Options, *openviking.Server) {
	b.Helper()
	s := openviking.New(openviking.Options{})
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	o.Env = []string{"OPENVIKING_URL=" + s.URL}
	o.Config += "memory:\n  provider: openviking\n  people: everyone\n"
	return o, s
}

// BenchmarkProvider compares three daemons, in rounds whose order alternates: without an
// external memory; with one; and without, while this process makes the two requests of each
// message as plainly as possible, which is the least that an external memory costs. 100 users
// write 5 messages each at once, and the model takes 50 ms. cpu-ratio and floor-ratio are what
// the ratios of messages per second would be if all processor time, also that of the
// simulators, were on cores that do nothing else.
func BenchmarkProvider(b *testing.B) {
	var speeds, more, ratios, floors []float64
	for n := range *pairs {
		var speed, daemon, all [3]float64 // without, with, floor
		for i := range speed {
			k := (n + i) % 3
			speed[k], daemon[k], all[k] = providerRun(b, k == 1, k == 2)
		}
		b.Logf("without, with and floor: %.0f messages/s; ms of processor time per message: daemon %.2f, with the simulators %.2f", speed, daemon, all)
		speeds, more = append(speeds, speed[1]/speed[0]), append(more, daemon[1]-daemon[0])
		ratios, floors = append(ratios, all[0]/all[1]), append(floors, all[0]/all[2])
	}
	for name, list := range map[string][]float64{"speed-ratio": speeds, "more-cpu-ms/message": more, "cpu-ratio": ratios, "floor-ratio": floors} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
}

// providerRun returns messages per second, and processor time per message of the daemon and
// of all.
func providerRun(b *testing.B, provider, floor bool) (perSecond, daemon, all float64) {
	const people, rounds = 100, 5
	o := daemontest.Options{People: people, Model: llm.Options{FirstByte: 50 * time.Millisecond}, Config: "display:\n  busy_input_mode: queue\n"}
	with, s := withProvider(b, o)
	if provider {
		o = with
	}
	w := start(b, o)
	defer w.Close()
	before := ownCPU(b)
	requests := make(chan int, people*rounds)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(requests)
	for range 32 { // as many recalls as the daemon makes at the same time
		workers.Go(func() {
			for n := range requests {
				askPlainly(b, s.URL, n%people, fmt.Sprintf("message #%d", n))
			}
		})
	}
	begin := time.Now()
	for n := range people * rounds {
		w.Direct[n%people].Say(w.People[n%people], fmt.Sprintf("message #%d", n))
		if floor {
			requests <- n
		}
	}
	w.answered(people * rounds)
	took := time.Since(begin)
	time.Sleep(2 * time.Second) // until the messages are indexed and told too
	used, err := w.Daemon.CPU()
	if err != nil {
		b.Fatal(err)
	}
	if (provider || floor) && len(s.Calls()) < people*rounds {
		b.Errorf("the memory was called %d times", len(s.Calls()))
	}
	return people * rounds / took.Seconds(), ms(used) / (people * rounds), ms(used+ownCPU(b)-before) / (people * rounds)
}

// plain keeps a connection for each of the workers.
var plain = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// askPlainly makes the requests of one message: a search and the two messages of the turn.
func askPlainly(b *testing.B, url string, person int, text string) {
	at := time.Now().UTC().Format(time.RFC3339)
	for path, body := range map[string]string{
		"search/search": fmt.Sprintf(`{"query":%q,"limit":24,"score_threshold":0.15,"context_type":"memory","session_id":"s%d"}`, text, person),
		fmt.Sprintf("sessions/s%d/messages/batch", person): fmt.Sprintf(`{"messages":[{"role":"user","content":%q,"created_at":%q},{"role":"assistant","peer_id":"hermes","content":%[1]q,"created_at":%[2]q}]}`, text, at),
	} {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+"/api/v1/"+path, strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Openviking-Account": {"default"}, "X-Openviking-User": {fmt.Sprint("p", person)}}
		resp, err := plain.Do(req)
		if err != nil {
			b.Error(err)
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			b.Error(resp.Status, err)
		}
	}
}

// ownCPU returns the processor time of this process, in which the simulators are.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	var ticks [2]int64 // of 10 ms, in user mode and in the kernel
	for i, field := range strings.Fields(rest)[11:13] {
		if ticks[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * 10 * time.Millisecond
}

// BenchmarkProviderIdle watches two idle daemons at the same time, without and with an
// external memory.
func BenchmarkProviderIdle(b *testing.B) {
	o, s := withProvider(b, daemontest.Options{})
	ws := [2]*world{start(b, daemontest.Options{}), start(b, o)}
	for _, w := range ws {
		w.Direct[0].Say(w.People[0], "hello #1")
		w.answered(1)
	}
	time.Sleep(10 * time.Second)
	calls := len(s.Calls())
	var switches, cpu [2]float64
	read := func(sign float64) {
		for i, w := range ws {
			n, err := w.Daemon.Switches()
			c, err2 := w.Daemon.CPU()
			if err != nil || err2 != nil {
				b.Fatal(err, err2)
			}
			switches[i] += sign * float64(n)
			cpu[i] += sign * ms(c)
		}
	}
	read(-1)
	time.Sleep(*idle)
	read(1)
	for i, name := range []string{"without", "with"} {
		b.ReportMetric(switches[i]/idle.Seconds(), "wakeups/s-"+name)
		b.ReportMetric(cpu[i]/idle.Seconds(), "cpu-ms/s-"+name)
	}
	b.ReportMetric(float64(len(s.Calls())-calls), "calls")
}
