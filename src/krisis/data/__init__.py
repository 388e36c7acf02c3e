"""Stage 1: clinical suites, which produce patient records."""

from krisis.lazy_names import lazily

_HOMES = {
    "BaseDataSuite": "krisis.data.base",
    "CKDSuite": "krisis.data.ckd.suite",
    "Costs": "krisis.costs",
    "DiabetesSuite": "krisis.data.nhanes.diabetes",
    "FeatureDescription": "krisis.data.base",
    "FeatureSet": "krisis.data.base",
    "Judgement": "krisis.data.base",
    "PHQ8Suite": "krisis.data.phq8.suite",
    "PatientRecord": "krisis.data.base",
    "Perturbation": "krisis.data.perturbation",
    "Perturbed": "krisis.data.perturbation",
    "RecordListSuite": "krisis.data.base",
    "SecondUnit": "krisis.data.base",
    "SuiteConfig": "krisis.data.base",
    "Support2Suite": "krisis.data.support2.suite",
    "TableSuite": "krisis.data.table.suite",
    "Task": "krisis.data.base",
    "TotalScale": "krisis.data.base",
}
__all__ = [
    "BaseDataSuite",
    "CKDSuite",
    "Costs",
    "DiabetesSuite",
    "FeatureDescription",
    "FeatureSet",
    "Judgement",
    "PHQ8Suite",
    "PatientRecord",
    "Perturbation",
    "Perturbed",
    "RecordListSuite",
    "SecondUnit",
    "SuiteConfig",
    "Support2Suite",
    "TableSuite",
    "Task",
    "TotalScale",
]
__getattr__ = lazily(__name__, _HOMES)
