package lane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/lane"
)

func TestLaneRunsOncePerKeyAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		queue := map[int][]int{} // the store
		got := map[int][]int{}
		var running [4]atomic.Int32
		s := lane.New[int](3)
		s.Start(func(ctx context.Context, k int) {
			if running[k].Add(1) != 1 {
				t.Errorf("key %d runs twice at once", k)
			}
			defer running[k].Add(-1)
			mu.Lock()
			q := queue[k]
			queue[k] = nil
			mu.Unlock()
			time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			mu.Lock()
			got[k] = append(got[k], q...)
			mu.Unlock()
		})
		for i := range 2000 {
			k := rand.IntN(4)
			mu.Lock()
			queue[k] = append(queue[k], i)
			mu.Unlock()
			s.Wake(k)
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		n := 0
		for k, g := range got {
			n += len(g)
			for i := 1; i < len(g); i++ {
				if g[i] <= g[i-1] {
					t.Fatalf("key %d out of order at %d", k, i)
				}
			}
		}
		if n != 2000 {
			t.Fatalf("ran %d of 2000", n)
		}
		if r, w := s.Running(); r != 0 || w != 0 {
			t.Errorf("idle set reports %d running and %d waiting", r, w)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Lanes that are woken before Start run at Start, and no more than max at once.
func TestLaneStartRunsWhatWasWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		s := lane.New[int](2)
		for k := range 3 {
			s.Wake(k)
		}
		if r, w := s.Running(); r != 0 || w != 3 || s.HasCapacity() {
			t.Errorf("before Start %d run and %d wait", r, w)
		}
		s.Start(func(context.Context, int) { n.Add(1); time.Sleep(time.Second) })
		synctest.Wait()
		if n.Load() != 2 {
			t.Errorf("%d run at once", n.Load())
		}
		if err := s.Wait(t.Context()); err != nil || n.Load() != 3 {
			t.Errorf("ran %d of 3: %v", n.Load(), err)
		}
	})
}

func TestLaneBusyGoesToEndOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		s := lane.New[string](1)
		s.Start(func(ctx context.Context, k string) {
			order = append(order, k)
			time.Sleep(time.Second)
			if k == "busy" && len(order) < 6 {
				s.Wake(k)
			}
		})
		s.Wake("busy")
		synctest.Wait()
		s.Wake("a")
		s.Wake("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[busy a b busy busy busy]"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A lane that another one waits for wakes it once it has no more work, and only then.
func TestWakeAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ran []string
		s := lane.New[string](4)
		s.Start(func(ctx context.Context, k string) {
			mu.Lock()
			ran = append(ran, k)
			mu.Unlock()
			time.Sleep(time.Second)
		})
		s.WakeAfter("later", "first") // which need not exist yet
		s.WakeAfter("later", "first")
		time.Sleep(time.Minute)
		s.Wake("first")
		synctest.Wait()
		s.Wake("first") // it runs twice
		time.Sleep(time.Minute)
		s.Wake("first")
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got, want := fmt.Sprint(ran), "[first first later first]"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLaneCloseWaitsAndRefusesWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		s := lane.New[int](2)
		s.Start(func(ctx context.Context, k int) { n.Add(1); <-ctx.Done(); time.Sleep(time.Second) })
		for k := range 3 { // the third waits for a slot, and never runs
			s.Wake(k)
		}
		synctest.Wait()
		start := time.Now()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) != time.Second {
			t.Errorf("Close took %v", time.Since(start))
		}
		s.Wake(4)
		synctest.Wait()
		if n.Load() != 2 {
			t.Errorf("ran %d", n.Load())
		}
	})
}

func TestLaneRefuseWakesKeepsWaitingLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		s := lane.New[int](1)
		s.Start(func(context.Context, int) { n.Add(1); time.Sleep(time.Second) })
		s.Wake(1)
		s.Wake(2)
		s.RefuseWakes()
		s.Wake(3)
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n.Load() != 2 {
			t.Errorf("ran %d of 2", n.Load())
		}
	})
}

func TestLaneWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lane.New[int](1)
		s.Start(func(ctx context.Context, k int) { time.Sleep(time.Hour) })
		s.Wake(1)
		synctest.Wait()
		s.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", err)
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Errorf("Wait returned %v", err)
		}
	})
}

func BenchmarkWakeAndRun(b *testing.B) {
	done := make(chan struct{}, 1)
	s := lane.New[int](64)
	s.Start(func(ctx context.Context, k int) { done <- struct{}{} })
	for i := range b.N {
		s.Wake(i)
		<-done
	}
}
