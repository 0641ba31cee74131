package bolt_test

import (
	"testing"

	"go.uber.org/goleak"

	"hermesd/gateway"
	"hermesd/storage/bolt"
)

var _ gateway.Store = (*bolt.Store)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
