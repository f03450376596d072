import sys,cProfile,pstats,time
from ultraspec import USPEC, datasets, report
which=sys.argv[1] if len(sys.argv)>1 else "cg"
if which=="cg":
    X,y=datasets.generate("cg",20000,random_state=0); m=USPEC(6,random_state=0,n_jobs=1).fit(X)
else:
    import numpy as np; d=np.load("/work/shared/data/pendigits.npz"); X=d["X"]; m=USPEC(10,random_state=0,n_jobs=1).fit(X)
X0,_=datasets.generate("cc",1500,random_state=0); m0=USPEC(3,n_representatives=100,random_state=0,n_jobs=1).fit(X0); report.write(m0,X0,"/tmp/h/pg/w.html") # warm kernels
from ultraspec.figures import explore as E
import ultraspec.figures.explore as ex, ultraspec.report._page as pg
for mod,names in ((ex,["open_labeled_rows","read_columns","plan_cuts","telling_features","build_graph","position_function","survey_rows","finish_cuts","_examples","measure_null","node_stability","supported_numbers","compute_agreement"]),(pg,["explore","script_data","script_json","diagnose","render_document","eigengap","render_template"])):
    for n in names:
        f=getattr(mod,n)
        def w(*a,_f=f,_n=n,**k):
            t=time.perf_counter();c=time.process_time()
            try: return _f(*a,**k)
            finally: print(f"{_n:20s} {time.perf_counter()-t:.2f} cpu {time.process_time()-c:.2f}")
        setattr(mod,n,w)
t=time.perf_counter();c=time.process_time()
if len(sys.argv)>2:
    p=cProfile.Profile(); p.enable()
report.write(m,X,"/tmp/h/pg/prof.html")
if len(sys.argv)>2:
    p.disable(); pstats.Stats(p).sort_stats("tottime").print_stats(45)
print("total",time.perf_counter()-t,"cpu",time.process_time()-c)
