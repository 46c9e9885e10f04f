//go:build k8s_1_34

package main

import "k8s.io/kubernetes/pkg/scheduler/framework"

type (
	anyPlugin           = framework.Plugin
	handle              = framework.Handle
	preFilterPlugin     = framework.PreFilterPlugin
	filterPlugin        = framework.FilterPlugin
	postFilterPlugin    = framework.PostFilterPlugin
	scorePlugin         = framework.ScorePlugin
	reservePlugin       = framework.ReservePlugin
	enqueueExtensions   = framework.EnqueueExtensions
	preFilterExtensions = framework.PreFilterExtensions
	preFilterResult     = framework.PreFilterResult
	postFilterResult    = framework.PostFilterResult
	nodeStatuses        = framework.NodeToStatusReader
	scoreExtensions     = framework.ScoreExtensions
)
